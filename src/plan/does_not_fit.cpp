// What the planner says when a run does not fit: the other half of planner.cpp.
#include <algorithm>

#include "autotrain/error.h"
#include "base/text.h"
#include "base/units.h"
#include "plan/planner.h"

namespace autotrain {
namespace {

// What would help, in the order a user would try it.
std::string advice(const Workbench& bench, Precision precision, const MemoryStatement& memory) {
  const bool states_too_large = memory.floor() > memory.budget;
  std::vector<std::string> ways = {
      states_too_large ? cat("raise execution.memory.budget well above ", format_bytes(memory.floor()))
                       : "raise execution.memory.budget"};
  const bool half_possible = precision == Precision::kFp32 && bench.device.has_native_bf16();
  if (half_possible && !states_too_large)
    ways.push_back("set execution.precision: bf16 (activations take about half)");
  if (bench.loader.prefetch > 0) ways.push_back("set execution.loader.prefetch: 0");
  ways.push_back("use a smaller model or smaller samples");
  return join(ways, "; ");
}

}  // namespace

void Planner::fail_smallest(const SearchLimits& limits) {
  const auto smallest = std::min_element(
      history_.begin(), history_.end(),
      [](const ProbeRecord& a, const ProbeRecord& b) { return a.micro_batch < b.micro_batch; });
  const std::string size = cat(smallest->micro_batch, smallest->micro_batch == 1 ? " sample" : " samples");
  if (smallest->outcome == ProbeOutcome::kAboveBand && smallest->micro_batch <= limits.minimum) {
    throw Error(
        ExitCode::kDoesNotFit, "execution.memory.target",
        cat("the smallest micro-batch, ", size, ", fills ", format_percent(smallest->fill),
            " of the budget: above the band, though inside the budget"),
        cat("widen execution.memory.target, raise execution.memory.budget, or type execution.micro_batch: ",
            smallest->micro_batch));
  }
  const MemoryStatement memory = statement();
  throw Error(ExitCode::kDoesNotFit, "plan",
              cat("not even ", size, " in one micro-batch fit", smallest->micro_batch == 1 ? "s" : "", " (",
                  to_string(smallest->outcome), ")", describe(memory, refusal_)),
              advice(bench_, request_.precision, memory));
}

void Planner::fail_typed(int64_t size) {
  const std::optional<Refusal> refusal = refusal_;
  SearchLimits limits = this->limits();
  limits.cap = std::min(limits.cap, size - 1);
  std::string hint;
  if (limits.cap >= limits.minimum) {
    const Capacity capacity = search(limits);
    if (capacity.size > 0) {
      hint = cat("micro_batch: ", capacity.size, " fits (measured, ", format_percent(capacity.record.fill),
                 " of the budget); or micro_batch: auto");
    }
  }
  const MemoryStatement memory = statement();
  if (hint.empty()) hint = advice(bench_, request_.precision, memory);
  throw Error(ExitCode::kDoesNotFit, "execution.micro_batch",
              cat(size, " does not fit", describe(memory, refusal)), hint);
}

}  // namespace autotrain
