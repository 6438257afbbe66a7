#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "autotrain/named_tensor.h"

namespace autotrain {

/// Tells whether such a file is what it was, as Network::fingerprint of its model does.
/// @throws Error(kMissingFile, kInputOutput).
std::string digest_of_script(const std::filesystem::path& path);

/// Writes the TorchScript file `from` with these tensors in the place of its parameters and buffers.
/// @param tensors under the names of the module, every one of its parameters among them.
/// @throws Error(kMissingFile, kBadData) naming what does not match, Error(kInputOutput).
void write_torchscript(const std::filesystem::path& from, const std::vector<NamedTensor>& tensors,
                       const std::filesystem::path& to);

}  // namespace autotrain
