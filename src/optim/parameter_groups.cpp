#include "optim/parameter_groups.h"

#include "autotrain/error.h"
#include "base/text.h"
#include "base/units.h"
#include "recipe/patterns.h"

namespace autotrain {
namespace {

ParameterGroup empty_group(const OptimizerRecipe& recipe, const ParameterGroupRecipe& group) {
  return {.name = join(group.match, ", "),
          .lr_factor = group.lr_factor,
          .weight_decay = group.weight_decay.value_or(recipe.weight_decay),
          .decay_all = group.decay_all.value_or(recipe.decay_all),
          .every = group.every};
}

// The first group that matches the name; the number of groups when none does.
size_t group_of(const std::string& name, const OptimizerRecipe& recipe) {
  size_t group = 0;
  while (group < recipe.groups.size() && !matches_any(name, recipe.groups[group].match)) ++group;
  return group;
}

std::string key_of(size_t group) {
  return cat("optimizer.groups[", group, "].match");
}

// A pattern whose names all belong to groups before it changes nothing, which nobody means.
void check_not_shadowed(const OptimizerRecipe& recipe, size_t group, const std::vector<std::string>& names) {
  for (const std::string& pattern : recipe.groups[group].match) {
    std::vector<std::string> taken;
    bool own = false;
    for (const std::string& name : names) {
      if (!matches_pattern(name, pattern)) continue;
      const size_t first = group_of(name, recipe);
      own |= first == group;
      if (first != group) taken.push_back(name);
    }
    if (own) continue;
    throw Error(ExitCode::kBadRecipe, key_of(group),
                cat(quote(pattern), " matches only what groups before it match: ", some_of(taken)),
                "the first group that matches counts: put the narrower one first");
  }
}

void check_all_updates_used(const OptimizerRecipe& recipe, const std::vector<ParameterGroup>& groups) {
  bool waits = false;
  for (const ParameterGroup& group : groups) {
    if (!group.parameters.empty() && group.every == 1) return;
    waits |= group.every > 1;
  }
  if (!waits) return;
  throw Error(
      ExitCode::kBadRecipe, "optimizer.groups",
      cat("leave nothing that learns in update 1: every parameter is in a group with every: ",
          recipe.groups[0].every, " or the like"),
      "leave `every` out for those that learn in all updates; for fewer updates of all of them, take a "
      "larger batch.effective");
}

// Counts of the updates that are for all parameters together would be wrong for those that wait.
void check_counts(const OptimizerRecipe& recipe) {
  const std::string& name = recipe.algorithm.name;
  if (name != "nadamw" && name != "lamb") return;
  for (size_t i = 0; i < recipe.groups.size(); ++i) {
    if (recipe.groups[i].every == 1) continue;
    throw Error(ExitCode::kBadRecipe, cat("optimizer.groups[", i, "].every"),
                cat("is ", recipe.groups[i].every, ", and ", name,
                    " corrects its means by one count of updates for all parameters"),
                "take adamw or adam, which count for each parameter");
  }
}

}  // namespace

std::vector<ParameterGroup> parameter_groups(const OptimizerRecipe& recipe,
                                             const std::vector<NamedTensor>& parameters) {
  check_counts(recipe);
  std::vector<std::string> names;
  for (const NamedTensor& parameter : parameters) names.push_back(parameter.name);
  std::vector<ParameterGroup> groups;
  for (size_t i = 0; i < recipe.groups.size(); ++i) {
    check_patterns(key_of(i), recipe.groups[i].match, names, "name of a parameter that is trained");
    check_not_shadowed(recipe, i, names);
    groups.push_back(empty_group(recipe, recipe.groups[i]));
  }
  groups.push_back({.name = "others", .weight_decay = recipe.weight_decay, .decay_all = recipe.decay_all});
  for (size_t i = 0; i < names.size(); ++i) groups[group_of(names[i], recipe)].parameters.push_back(i);
  check_all_updates_used(recipe, groups);
  return groups;
}

std::string describe(const std::vector<ParameterGroup>& groups, const std::vector<NamedTensor>& parameters) {
  std::vector<std::string> parts;
  for (const ParameterGroup& group : groups) {
    if (group.parameters.empty()) continue;
    int64_t weights = 0;
    for (const size_t i : group.parameters) weights += parameters[i].tensor.numel();
    parts.push_back(cat(group.name, ": ", group.parameters.size(),
                        group.parameters.size() == 1 ? " tensor with " : " tensors with ",
                        format_count(weights), weights == 1 ? " weight" : " weights",
                        group.lr_factor == 1 ? "" : cat(", learning rate × ", brief(group.lr_factor)),
                        group.weight_decay == 0 ? "" : cat(", decay ", brief(group.weight_decay)),
                        group.every == 1 ? "" : cat(", in one of ", group.every, " updates")));
  }
  return join(parts, "; ");
}

}  // namespace autotrain
