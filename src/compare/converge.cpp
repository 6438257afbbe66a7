#include "compare/converge.h"

#include <algorithm>

#include "autotrain/trainer.h"
#include "base/text.h"
#include "optim/lr_rules.h"
#include "recipe/reader.h"

namespace autotrain {
namespace {

Recipe load_with(const ConvergeOptions& options, const std::vector<std::string>& settings) {
  std::vector<std::string> overrides = options.overrides;
  overrides.insert(overrides.end(), settings.begin(), settings.end());
  return load_recipe(options.config, overrides);
}

std::vector<std::string> once_each(const std::vector<std::string>& words) {
  std::vector<std::string> once;
  for (const std::string& word : words) {
    if (std::ranges::count(once, word) == 0) once.push_back(word);
  }
  return once;
}

std::vector<std::string> rules_of(const ConvergeOptions& options) {
  if (!options.rules.empty()) return options.rules;
  const std::string own = load_with(options, {}).batch.lr_rule;
  const std::string unscaled = lr_rule_for(LrRule::For::kAny).spec.name;
  return {own == unscaled ? lr_rule_for(LrRule::For::kPlain).spec.name : own, unscaled};
}

}  // namespace

CompareOptions convergence(const ConvergeOptions& options) {
  const std::vector<std::string> rules = once_each(rules_of(options));
  CompareOptions compare;
  compare.training_set = true;
  for (const std::string& batch : options.batches) {
    const size_t first = compare.recipes.size();
    for (const std::string& rule : rules) {
      Recipe recipe = load_with(options, {"batch.effective=" + batch, "batch.lr_rule=" + rule});
      if (recipe.stop.updates)
        fail_recipe(recipe, "stop.updates", "means other samples at every batch size",
                    "set stop.epochs or stop.samples instead");
      compare.recipes.push_back({cat("E", batch, "-", rule), std::move(recipe)});
      for (size_t other = first; other + 1 < compare.recipes.size(); ++other)
        compare.pairs.emplace_back(other, compare.recipes.size() - 1);
    }
  }
  return compare;
}

}  // namespace autotrain
