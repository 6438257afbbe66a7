#pragma once

#include <string>
#include <vector>

#include "compare/comparison.h"

namespace autotrain {

/// A recipe over the tasks of a comparison: data that a grid's axis varies (`--vary data.…`). Where none
/// does, there is one task.
struct TaskGroup {
  std::string label = {};
  std::vector<std::vector<double>> values = {};  ///< of the compared figure at equal samples, by task
  int64_t runs = 0;  ///< that ought to have a value; those without one are the worst

  int64_t counted() const;
};

std::vector<TaskGroup> groups_over_tasks(const Comparison& comparison);

/// The axis whose values are tasks: data on which figures are not the same quantity; null: there is none.
const DifferingKey* task_axis(const Comparison& comparison);

/// Whether a figure may be taken together over tasks: a share, which means the same everywhere.
bool is_share(const Comparison& comparison);

}  // namespace autotrain
