#pragma once

#include <string>

namespace autotrain {

/// "a.b" for "a.b.weight"; "" for a tensor of the model itself.
std::string part_of(const std::string& tensor);

/// Whether the pattern matches the name of a tensor, or of a part of the model that the tensor lies in:
/// "block0", "block0.qkv" and "*.qkv" all take "block0.qkv.weight".
bool takes(const std::string& pattern, const std::string& tensor);

}  // namespace autotrain
