#pragma once

#include <string>
#include <vector>

namespace autotrain {

/// "a.b" for "a.b.weight"; "" for a tensor of the model itself.
std::string part_of(const std::string& tensor);

/// Whether one of the patterns matches the name.
bool matches_any(const std::string& name, const std::vector<std::string>& patterns);

/// Whether the pattern matches the name of a tensor, or of a part of the model that the tensor lies in:
/// "block0", "block0.qkv" and "*.qkv" all take "block0.qkv.weight".
bool takes(const std::string& pattern, const std::string& tensor);

/// Says that a pattern matches nothing: a slip, which would else go unnoticed.
/// @throws Error(kBadRecipe), always, with the name that is nearest.
[[noreturn]] void fail_unmatched(const char* key, const std::string& pattern,
                                 const std::vector<std::string>& names);

/// @throws Error(kBadRecipe) as fail_unmatched for the first pattern that matches none of the names.
void check_patterns(const char* key, const std::vector<std::string>& patterns,
                    const std::vector<std::string>& names);

}  // namespace autotrain
