#pragma once

#include <nlohmann/json.hpp>

#include "autotrain/error.h"
#include "autotrain/recipe.h"
#include "base/text.h"
#include "device/failure.h"
#include "measure/subject.h"

namespace autotrain {

/// What `work` at this batch returns. What memory or the model refuses becomes an Error: a row of the sweep,
/// not its end.
template <class Work>
auto of_batch(int64_t batch, const Work& work) {
  try {
    return work();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    const bool memory = classify_failure(error) != Failure::kOther;
    throw Error(memory ? ExitCode::kDoesNotFit : ExitCode::kBadRecipe, cat("batch ", batch),
                first_line(error), memory ? "raise execution.memory.budget, or leave this batch out" : "");
  }
}

/// Measures one batch size of what the recipe names, in `recipe.sweep.mode`, on a batch that is on the device
/// already. For a process of its own. The result: docs/formats.md, the points of sweep.json.
/// @throws Error(kDoesNotFit) when memory does not suffice, Error(kBadRecipe) when the model cannot take such
/// a batch.
nlohmann::ordered_json measure_point(const Recipe& recipe, int64_t batch);

/// The same of a subject that is there. @throws what its calls throw.
nlohmann::ordered_json measure_point(Subject& subject, const SweepRecipe& sweep, int64_t batch);

/// Measures what does not depend on the batch: the device's roofline, the model's operators at one sample
/// (two in training), how fast its weights can be read, how long the smallest operator takes and, where the
/// recipe names trained weights and validation data, how good the model is in this precision.
nlohmann::ordered_json measure_variant(const Recipe& recipe);

/// The same of a subject that is there; afterwards its device has no limit of memory any more.
/// @param with_figures whether how good the model is is measured, too.
nlohmann::ordered_json measure_variant(Subject& subject, const SweepRecipe& sweep, bool with_figures);

}  // namespace autotrain
