#pragma once

#include <functional>
#include <optional>
#include <string>

#include "recipe/yaml_tree.h"

namespace autotrain {

using LookUp = std::function<std::optional<std::string>(const std::string& name)>;

/// The environment of this process.
std::optional<std::string> environment_variable(const std::string& name);

/// Replaces `${NAME}` and `${NAME:-default}` in every value (not in keys) of the tree; `$$` stands
/// for a dollar sign. The default is taken when the variable is unset or empty.
/// @throws Error(kBadRecipe) with the location for a variable that is unset and has no default, a
/// malformed reference, or a value that grows beyond a mebibyte.
void expand_variables(YamlNode& node, const LookUp& look_up);

}  // namespace autotrain
