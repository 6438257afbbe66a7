// The planner's errors about runs that do not fit: the other half of planner.cpp.
#include <algorithm>

#include "autotrain/error.h"
#include "base/text.h"
#include "base/units.h"
#include "model/models.h"
#include "plan/plan_enums.h"
#include "plan/planner.h"
#include "step/precision.h"

namespace autotrain {
namespace {

// The remedies, in the order a user would try them.
std::string advice(Workbench& bench, const MemoryStatement& memory, const std::string& half) {
  std::vector<std::string> ways;
  if (!half.empty()) ways.push_back(half);
  ways.push_back(memory.floor() > memory.budget
                     ? cat("raise execution.memory.budget well above ", format_bytes(memory.floor()))
                     : "raise execution.memory.budget");
  if (bench.loader.prefetch > 0) ways.push_back("set execution.loader.prefetch: 0");
  ways.push_back("use a smaller model or smaller samples");
  return join(ways, "; ");
}

}  // namespace

// Whether the size fits in half precision, by a trial; "" when it does not, or is half already.
std::string Planner::half_that_fits(int64_t size) {
  const std::optional<Precision> half = faster_precision(bench_.precision, *bench_.device);
  const Network* const network = as_network(bench_.task->module());
  if (!half || (network != nullptr && !network->computes_in(*half))) return "";
  StepOptions options = bench_.step.options();
  options.precision = *half;
  UpdateStep step(*bench_.task, *bench_.optimizer, bench_.scaler, options);
  const ProbeRecord record = Probe(bench_, step, request_.recipe.execution.memory.target_high)
                                 .run(shape_for(size), [](const ProbeRecord&) { return true; });
  if (!record.fits()) return "";
  return cat("set execution.precision: ", to_string(*half), ", where ", size,
             size == 1 ? " sample fits" : " samples fit", " (measured, ", format_percent(record.fill),
             " of the budget)");
}

void Planner::fail_smallest(const SearchLimits& limits) {
  const auto smallest = std::min_element(
      history_.begin(), history_.end(),
      [](const ProbeRecord& a, const ProbeRecord& b) { return a.micro_batch < b.micro_batch; });
  const std::string size = cat(smallest->micro_batch, smallest->micro_batch == 1 ? " sample" : " samples");
  const bool inside = smallest->outcome == ProbeOutcome::kAboveBand && smallest->fill <= 1;
  if (inside && smallest->micro_batch <= limits.minimum) {
    throw Error(
        ExitCode::kDoesNotFit, "execution.memory.target",
        cat("the smallest micro-batch, ", size, ", fills ", format_percent(smallest->fill),
            " of the budget: above the band, though inside the budget"),
        cat("widen execution.memory.target, raise execution.memory.budget, or set execution.micro_batch: ",
            smallest->micro_batch));
  }
  const MemoryStatement memory = statement();
  std::string why = library_error_.empty() ? in_words(smallest->outcome)
                                           : cat(in_words(smallest->outcome), ": ", library_error_);
  if (smallest->fill > 1) {
    why = cat("with what libraries take, which cannot be refused to them, it came to ",
              format_percent(smallest->fill), " of the budget");
  } else if (smallest->outcome == ProbeOutcome::kCrashed) {
    why = "its process ended each time, for lack of memory or by a fault of the model's own";
  }
  throw Error(ExitCode::kDoesNotFit, "plan",
              cat("not even ", size, " in one micro-batch fit", smallest->micro_batch == 1 ? "s" : "", " (",
                  why, ")", describe(memory, refusal_)),
              advice(bench_, memory, half_that_fits(smallest->micro_batch)));
}

void Planner::fail_typed(int64_t size) {
  const std::optional<Refusal> refusal = refusal_;
  SearchLimits limits = this->limits();
  limits.cap = std::min(limits.cap, size - 1);
  std::string hint;
  if (limits.cap >= limits.minimum) {
    const Capacity capacity = search(limits);
    if (capacity.size > 0) {
      hint = cat("execution.micro_batch: ", capacity.size, " fits (measured, ",
                 format_percent(capacity.record.fill), " of the budget); or auto");
    }
  }
  const MemoryStatement memory = statement();
  if (hint.empty()) hint = advice(bench_, memory, half_that_fits(size));
  throw Error(ExitCode::kDoesNotFit, "execution.micro_batch",
              cat(size, " does not fit", describe(memory, refusal)), hint);
}

}  // namespace autotrain
