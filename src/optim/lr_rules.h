#pragma once

#include <functional>
#include <vector>

#include "recipe/keys.h"

namespace autotrain {

struct LrRule {
  enum class For { kPlain, kAdaptive, kAny };  ///< kAny: it leaves the rate as it stands

  ChoiceSpec spec;                             ///< the sentence says when the rule fits, with its source
  For optimizers = For::kAny;                  ///< for which the rule is founded best
  std::function<double(double ratio)> factor;  ///< of effective ÷ reference_batch
};

/// Every learning-rate rule a recipe can name.
const std::vector<LrRule>& lr_rule_table();

/// The first rule of the table for such optimizers.
const LrRule& lr_rule_for(LrRule::For optimizers);

/// @throws Error(kBadRecipe) when there is no such rule.
const LrRule& find_lr_rule(const std::string& name);

}  // namespace autotrain
