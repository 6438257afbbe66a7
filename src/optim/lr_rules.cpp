#include "optim/lr_rules.h"

#include <algorithm>
#include <cmath>

#include "autotrain/error.h"

namespace autotrain {

const std::vector<LrRule>& lr_rule_table() {
  static const std::vector<LrRule> table = {
      {{"linear",
        "lr × ratio: keeps the expected path of plain or momentum SGD while gradients change little "
        "from update to update (Goyal et al. 2017, arXiv:1706.02677)."},
       LrRule::For::kPlain,
       [](double ratio) { return ratio; }},
      {{"sqrt",
        "lr × √ratio: keeps the noise of adaptive optimizers such as Adam, whose step does not grow with "
        "the gradient (Malladi et al. 2022, arXiv:2205.10287), and the variance of SGD's step "
        "(Krizhevsky 2014, arXiv:1404.5997)."},
       LrRule::For::kAdaptive,
       [](double ratio) { return std::sqrt(ratio); }},
      {{"none", "lr as it stands: for a rate that was tuned at this very batch."},
       LrRule::For::kAny,
       [](double) { return 1.0; }}};
  return table;
}

const LrRule& lr_rule_for(LrRule::For optimizers) {
  return *std::ranges::find(lr_rule_table(), optimizers, &LrRule::optimizers);
}

const LrRule& find_lr_rule(const std::string& name) {
  for (const LrRule& rule : lr_rule_table()) {
    if (rule.spec.name == name) return rule;
  }
  throw Error(ExitCode::kBadRecipe, "batch.lr_rule", "there is no rule named " + name);
}

}  // namespace autotrain
