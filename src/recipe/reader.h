#pragma once

#include "recipe/keys.h"
#include "recipe/yaml_tree.h"

namespace autotrain {

/// A recipe from a tree whose `extends:` is already resolved.
/// @throws Error(kBadRecipe) for an unknown key (with the nearest known one), a wrong type, or a value
/// that is not allowed, with the location and the key path.
Recipe read_recipe(const YamlNode& tree, const Catalog& catalog);

/// Where a recipe has a key of that name, or what other tools call so, in words; "" where nothing is known or
/// too many places have one.
std::string place_of_key(const std::string& key, const Catalog& catalog);

/// Checks one value against its declaration.
/// @throws Error(kBadRecipe) at the node's location, naming `path`.
Value read_value(const YamlNode& node, const KeySpec& key, const std::string& path);

/// Error(kBadRecipe) about a key of a recipe that has been read: points at where the key was given,
/// or names only the key when its default is to blame.
[[noreturn]] void fail_recipe(const Recipe& recipe, const std::string& path, std::string what,
                              std::string hint = "");

}  // namespace autotrain
