#pragma once

#include <string>
#include <vector>

#include "autotrain/named_tensor.h"
#include "autotrain/recipe.h"
#include "autotrain/update_info.h"

namespace autotrain {

/// Parameters that a recipe updates alike.
struct ParameterGroup {
  std::string name = {};  ///< its patterns; "others": those that no pattern matches
  double lr_factor = 1;
  double weight_decay = 0;
  bool decay_all = false;
  int64_t every = 1;                    ///< updated in updates every, 2 × every, …
  std::vector<size_t> parameters = {};  ///< their numbers, ascending

  /// Trials update all, so that they take what any update takes.
  bool in_turn(const UpdateInfo& info) const { return info.trial || info.update % every == 0; }
};

/// Every parameter in the first group of the recipe that matches its name; what is left comes last.
/// @throws Error(kBadRecipe) for a pattern that matches none, or only those of groups before.
std::vector<ParameterGroup> parameter_groups(const OptimizerRecipe& recipe,
                                             const std::vector<NamedTensor>& parameters);

/// "backbone.*: 60 tensors with 11.2 M weights, learning rate × 0.1; others: 2 tensors with …".
std::string describe(const std::vector<ParameterGroup>& groups, const std::vector<NamedTensor>& parameters);

}  // namespace autotrain
