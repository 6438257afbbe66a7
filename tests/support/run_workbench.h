#pragma once

#include <memory>
#include <string>

#include "autotrain/recipe.h"
#include "setup/assembly.h"
#include "support/tasks.h"

namespace autotrain::test {

// A sanitizer's own memory counts as what libraries take.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr const char* kSmallBudget = "4GiB";
#else
inline constexpr const char* kSmallBudget = "64MiB";
#endif

/// A recipe for SmallNet on `small_data`: fp32, quiet, short.
inline Recipe small_recipe() {
  Recipe r;
  r.name = "small";
  r.optimizer.algorithm = {"adamw", {}};
  r.optimizer.lr = 0.01;
  r.optimizer.reference_batch = 32;
  r.batch.effective = 32;
  r.stop.updates = 10;
  r.execution.precision = Precision::kFp32;
  r.execution.memory.budget = *Budget::parse(kSmallBudget);
  r.execution.search.plan_cache = false;
  r.report = {.html = false, .csv = false, .tensorboard = false};  // hundreds of runs have no reader
  return r;
}

/// Everything that computes updates for a task over data that outlive it.
inline std::unique_ptr<Workbench> make_workbench(const Recipe& recipe, std::unique_ptr<Task> task,
                                                 const Dataset& train, const Dataset* validation = nullptr) {
  auto device = open_run_device(recipe);
  RunData data;
  data.train = &train;
  data.validation = validation;
  return assemble(recipe, {std::move(device), std::move(data), std::move(task)});
}

inline std::unique_ptr<Task> small_task(SmallNet::Middle middle = SmallNet::Middle::kNothing,
                                        int64_t hidden = 16) {
  torch::manual_seed(1);
  return supervised(std::make_shared<SmallNet>(middle, 6, hidden), cross_entropy());
}

}  // namespace autotrain::test
