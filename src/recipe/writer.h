#pragma once

#include <string>

#include "recipe/keys.h"

namespace autotrain {

/// The recipe as YAML with every default spelled out. Reading it back gives an equal recipe.
std::string write_recipe(const Recipe& recipe, const Catalog& catalog);

/// The reference configuration: every key of every row with its default, unit, range and sentence.
/// It is itself a recipe that loads.
std::string write_reference(const Catalog& catalog);

/// A JSON Schema (draft 2020-12) of recipes, for editors and validators.
std::string write_schema(const Catalog& catalog);

}  // namespace autotrain
