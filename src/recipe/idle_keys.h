#pragma once

#include <string>
#include <vector>

#include "recipe/keys.h"

namespace autotrain {

/// A key that has another value than its default and yet changes nothing, since another one leaves it nothing
/// to do.
struct IdleKey {
  std::string path;
  std::string value;
  std::string why;  ///< "stop.patience is null"
};

/// Those of a recipe whose values are allowed, in the order in which keys are declared. They are no mistake
/// where a study varies what they go with, or a recipe that another one extends was meant so: who runs it is
/// told.
std::vector<IdleKey> idle_keys(Recipe recipe, const Catalog& catalog);

}  // namespace autotrain
