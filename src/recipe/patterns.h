#pragma once

#include <string>
#include <vector>

namespace autotrain {

/// Whether one of the patterns matches.
bool matches_any(const std::string& name, const std::vector<std::string>& patterns);

/// Says that a pattern matches nothing: a slip, which would else go unnoticed.
/// @param key  where the pattern stands in the recipe.
/// @param what "name of the model": what the names are, in the singular.
/// @throws Error(kBadRecipe), always, with the name that is nearest.
[[noreturn]] void fail_unmatched(const std::string& key, const std::string& pattern,
                                 const std::vector<std::string>& names,
                                 const char* what = "name of the model");

/// @throws Error(kBadRecipe) as fail_unmatched for the first pattern that matches none of the names.
void check_patterns(const std::string& key, const std::vector<std::string>& patterns,
                    const std::vector<std::string>& names, const char* what = "name of the model");

}  // namespace autotrain
