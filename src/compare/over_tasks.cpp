#include "compare/over_tasks.h"

#include <algorithm>

#include "compare/compare_tables.h"
#include "compare/fairness.h"

namespace autotrain {
int64_t TaskGroup::counted() const {
  int64_t count = 0;
  for (const std::vector<double>& task : values) count += std::ssize(task);
  return count;
}

const DifferingKey* task_axis(const Comparison& c) {
  const auto makes_tasks = [&](const DifferingKey& axis) {
    for (size_t i = 1; axis.path.starts_with("data.") && i < axis.values.size(); ++i) {
      if (axis.values[i] != axis.values[0]) return !why_not_comparable(c.terms, 0, i).empty();
    }
    return false;
  };
  const auto found = std::ranges::find_if(c.terms.axes, makes_tasks);
  return found == c.terms.axes.end() ? nullptr : &*found;
}

std::vector<TaskGroup> groups_over_tasks(const Comparison& c) {
  const DifferingKey* const axis = task_axis(c);
  std::vector<TaskGroup> groups;
  for (size_t i = 0; i < c.recipes.size(); ++i) {
    const std::string rest = axis == nullptr ? c.terms.recipes[i] : rest_of_axes(c, i, axis->path);
    const std::string label = rest.empty() ? "all" : rest;
    auto group = std::ranges::find(groups, label, &TaskGroup::label);
    if (group == groups.end()) group = groups.insert(groups.end(), {.label = label});
    group->values.push_back(values_on(c, i, FairAxis::kSamples));
    group->runs += spread_on(c.recipes[i], FairAxis::kSamples).runs;
  }
  return groups;
}

bool is_share(const Comparison& c) {
  return std::ranges::any_of(c.runs, [&](const RunOutcome& run) {
    const auto kind = run.figure_kinds.find(c.terms.figure);
    return kind != run.figure_kinds.end() && kind->second.share;
  });
}

}  // namespace autotrain
