#pragma once

#include <filesystem>
#include <vector>

#include "autotrain/named_tensor.h"

namespace autotrain {

/// Writes the TorchScript file `from` with these tensors in the place of its parameters and buffers.
/// @param tensors under the names of the module, every one of its parameters among them.
/// @throws Error(kMissingFile, kBadData) naming what does not match, Error(kInputOutput).
void write_torchscript(const std::filesystem::path& from, const std::vector<NamedTensor>& tensors,
                       const std::filesystem::path& to);

}  // namespace autotrain
