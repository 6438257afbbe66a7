#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "autotrain/named_tensor.h"

namespace autotrain {

/// A safetensors file says these texts of itself, by name, in its header: `read_safetensors_metadata` reads
/// them, and every other reader of the format passes over them.
using FileNotes = std::map<std::string, std::string>;

/// Writes notes beside what `write_safetensors` writes without them. Precondition: no note has the name of a
/// tensor that is there under several.
void write_safetensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors,
                       const FileNotes& notes);

}  // namespace autotrain
