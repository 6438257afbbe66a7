#pragma once

#include <string>
#include <vector>

namespace autotrain {

/// Whether one of the patterns matches.
bool matches_any(const std::string& name, const std::vector<std::string>& patterns);

/// A pattern that matches nothing is a slip, which would else go unnoticed.
/// @param key  where the patterns stand in the recipe.
/// @param what "name of the model": what the names are, in the singular.
/// @throws Error(kBadRecipe) for the first pattern that matches none of the names, naming the nearest.
void check_patterns(const std::string& key, const std::vector<std::string>& patterns,
                    const std::vector<std::string>& names, const char* what = "name of the model");

}  // namespace autotrain
