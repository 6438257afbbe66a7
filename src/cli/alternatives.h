#pragma once

#include <optional>
#include <string>
#include <vector>

#include "autotrain/trainer.h"

namespace autotrain {

/// What the same recipe would do in another precision, or with another of execution.recompute, by
/// measurement.
struct Alternative {
  Precision precision = Precision::kFp32;
  Recompute recompute = Recompute::kOff;
  std::optional<BatchPlan> plan = {};  ///< nothing: it does not fit
  std::string why_not = {};            ///< then: the first line of the reason
};

/// Plans `recipe` in every precision that its device is worth running in, one after the other:
/// fp32 and bf16 on a CPU, where fp16 is emulated and some forty times slower, and fp16 too on CUDA; a model
/// from an export in each with and without computing again.
/// @param asked the plan in the recipe's own precision; it is taken over, not searched again.
std::vector<Alternative> plan_alternatives(const Recipe& recipe, const BatchPlan& asked,
                                           const TrainerOptions& options);

/// The alternatives side by side: capacity, what is executed, samples/s.
std::string alternatives_text(const std::vector<Alternative>& alternatives);

}  // namespace autotrain
