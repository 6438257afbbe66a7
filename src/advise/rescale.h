#pragma once

#include <string>
#include <vector>

#include "autotrain/recipe.h"

namespace autotrain {

/// What a recipe was learned with, and the effective batch that it is to have.
struct Rescaling {
  int64_t from = 0;  ///< samples per update
  int64_t to = 0;
  double lr = 0;  ///< that was used at `from`, as the plan has it
};

/// The recipe for the other effective batch, so that it learns the same from the same samples, as far as is
/// known how. With κ = to ÷ from:
/// - the rate that was used, by the rule that is founded for the optimizer: κ for plain ones (Goyal et al.
/// 2017,
///   arXiv:1706.02677), √κ for adaptive ones (Malladi et al. 2022, arXiv:2205.10287). The recipe's own rule
///   does it where it is that one; else the rate in use becomes the one at `from`, under that rule.
/// - of Adam and its like β₂ becomes β₂^κ, which keeps its half-life in samples (Marek et al. 2025,
///   arXiv:2507.07101) and is 1 − κ(1 − β₂) to first order, and ε becomes ε ÷ √κ (Malladi et al.).
/// - whatever is counted in updates, warm-up and the steps of schedules, keeps its samples; the length of the
/// run
///   is given in samples. Averages of weights are counted in samples anyway (Busbridge et al. 2023,
///   arXiv:2307.13813).
/// With κ = 1 it is the recipe itself.
Recipe rescaled(const Recipe& recipe, const Rescaling& change);

/// One key that rescaling changes.
struct RecipeLine {
  std::string path = {};    ///< "optimizer.beta2"
  std::string before = {};  ///< as YAML
  std::string after = {};
  std::string reason = {};  ///< with its source
};

/// What `rescaled` changes, key by key.
std::vector<RecipeLine> recipe_lines(const Recipe& recipe, const Rescaling& change);

/// The same as YAML to be merged into a recipe, the old value and the reason behind each key.
std::string yaml_of(const std::vector<RecipeLine>& lines);

/// What goes with another batch and needs no change, or cannot be had, in sentences.
std::vector<std::string> remarks_on(const Recipe& recipe, const Rescaling& change);

/// Samples after which a gradient's share in Adam's second moment has halved; 0: the optimizer has none.
double second_moment_half_life(const Recipe& recipe, int64_t effective);

}  // namespace autotrain
