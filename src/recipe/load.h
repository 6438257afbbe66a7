#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "recipe/keys.h"
#include "recipe/variables.h"

namespace autotrain {

struct LoadOptions {
  std::vector<std::string> overrides = {};  ///< "a.b=value", in order; the last one wins
  LookUp variables = environment_variable;
};

/// Reads a recipe file with everything it extends, replaces variables, applies overrides and checks
/// the whole.
/// @throws Error: kMissingFile when the file is missing, kUsage for a malformed override, kBadRecipe
/// for everything else.
Recipe load_recipe_file(const std::filesystem::path& path, const Catalog& catalog,
                        const LoadOptions& options = {});

/// The same for text; `name` stands for the file in messages and `extends:` is relative to the
/// present folder.
Recipe load_recipe_text(const std::string& text, const std::string& name, const Catalog& catalog,
                        const LoadOptions& options = {});

}  // namespace autotrain
