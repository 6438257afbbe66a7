#include "compare/fairness.h"

#include <algorithm>
#include <array>
#include <map>

#include "base/text.h"
#include "recipe/compare.h"
#include "state/catalog.h"

namespace autotrain {

std::vector<DifferingKey> differing_keys(const std::vector<NamedRecipe>& recipes) {
  std::map<std::string, std::vector<std::string>> rows;
  for (size_t i = 0; i < recipes.size(); ++i) {
    for (const auto& [path, value] : values_of(recipes[i].recipe, catalog())) {
      rows.try_emplace(path, recipes.size(), "absent").first->second[i] = value;
    }
  }
  rows.erase("name");
  rows.erase("seed");
  std::vector<DifferingKey> keys;
  for (auto& [path, values] : rows) {
    const bool equal =
        std::all_of(values.begin(), values.end(), [&](const auto& v) { return v == values[0]; });
    if (!equal) keys.push_back({path, std::move(values)});
  }
  return keys;
}

std::vector<std::string> unfair_because(const std::vector<DifferingKey>& keys) {
  struct Cause {
    const char* section;
    const char* sentence;
  };
  constexpr std::array kCauses = {
      Cause{"data.train", "they learn from different data"},
      Cause{"data.validation", "they are evaluated on different data"},
      Cause{"model.weights", "they start from different weights"},
      Cause{"loss", "their losses are different quantities"},
      Cause{"evaluation.every",
            "they are evaluated at different times: targets are noticed sooner where that is more often"},
      Cause{"stop", "they stop differently: figures are compared where the shortest run ends"},
      Cause{"execution.device", "they run on different devices: times say little about the recipes"},
      Cause{"execution.threads", "they compute with different numbers of threads"}};
  std::vector<std::string> warnings;
  for (const Cause& cause : kCauses) {
    std::vector<std::string> paths;
    for (const DifferingKey& key : keys) {
      if (key.path == "stop.max_skipped") continue;  // which ends failures alone
      if (key.path == cause.section || key.path.starts_with(cat(cause.section, ".")))
        paths.push_back(key.path);
    }
    if (!paths.empty()) warnings.push_back(cat(cause.sentence, " (", join(paths, ", "), ")"));
  }
  return warnings;
}

namespace {

bool is_of(const std::string& path, std::string_view section) {
  return path == section || path.starts_with(cat(section, "."));
}

// Figures that are made of the loss, and so are of another quantity with another one.
bool follows_loss(const std::string& figure) {
  return figure == "loss" || figure == "perplexity";
}

// Targets of that value have no part in any figure; a loss without the key leaves out what the key's default
// does.
bool leave_out_other_targets(const DifferingKey& key, size_t a, size_t b) {
  const auto left_out = [&](size_t i) { return key.values.at(i) == "absent" ? "-100" : key.values.at(i); };
  return key.path == "loss.ignore_index" && left_out(a) != left_out(b);
}

}  // namespace

bool losses_are_alike(const std::vector<DifferingKey>& keys) {
  return std::ranges::none_of(keys, [](const DifferingKey& key) {
    return is_of(key.path, "loss") || (is_of(key.path, "data") && !is_of(key.path, "data.test"));
  });
}

std::string why_not_comparable(const ComparisonTerms& terms, size_t a, size_t b) {
  std::vector<std::string> data, task, targets, loss;
  for (const DifferingKey& key : terms.differing_keys) {
    if (key.values.at(a) == key.values.at(b)) continue;
    if (is_of(key.path, "data.validation")) data.push_back(key.path);
    if (key.path == "data.train.target" || key.path == "data.train.task") task.push_back(key.path);
    if (leave_out_other_targets(key, a, b)) targets.push_back(key.path);
    if (is_of(key.path, "loss") && follows_loss(terms.figure)) loss.push_back(key.path);
  }
  if (!data.empty()) return cat("are evaluated on different data (", join(data, ", "), ")");
  if (!task.empty()) return cat("have different tasks (", join(task, ", "), ")");
  if (!targets.empty()) return cat("are evaluated on different targets (", join(targets, ", "), ")");
  if (!loss.empty())
    return cat("have different losses, of which ", terms.figure, " is made (", join(loss, ", "), ")");
  return "";
}

}  // namespace autotrain
