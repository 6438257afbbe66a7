#pragma once

#include <functional>
#include <vector>

#include "recipe/keys.h"

namespace autotrain {

struct LrRule {
  ChoiceSpec spec;                             ///< the sentence says when the rule fits, with its source
  std::function<double(double ratio)> factor;  ///< of effective ÷ reference_batch
};

/// Every learning-rate rule a recipe can name.
const std::vector<LrRule>& lr_rule_table();

/// @throws Error(kBadRecipe) when there is no such rule.
const LrRule& find_lr_rule(const std::string& name);

}  // namespace autotrain
