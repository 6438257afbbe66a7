#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "autotrain/named_tensor.h"

namespace autotrain {

/// What a safetensors file says of itself, by name: texts in its header, which `read_safetensors_metadata`
/// reads and every reader of the format passes over.
using FileNotes = std::map<std::string, std::string>;

/// As `write_safetensors` without notes. Precondition: no note has the name of a tensor that is there under
/// several.
void write_safetensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors,
                       const FileNotes& notes);

}  // namespace autotrain
