// The planner's errors about runs that do not fit: the other half of planner.cpp.
#include <algorithm>
#include <bit>
#include <cmath>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "base/text.h"
#include "base/units.h"
#include "model/models.h"
#include "plan/plan_enums.h"
#include "plan/planner.h"
#include "step/precision.h"

namespace autotrain {
namespace {

// Until the scope ends memory is refused only beyond `bytes`.
class LimitScope {
 public:
  LimitScope(Device& device, int64_t bytes) : device_(device) { device.memory().set_limit(bytes); }
  ~LimitScope() { device_.memory().set_limit(device_.budget_bytes()); }
  LimitScope(const LimitScope&) = delete;
  LimitScope& operator=(const LimitScope&) = delete;

 private:
  Device& device_;
};

// A budget that holds `bytes` and is easy to read and to type: "416MiB".
std::string readable_budget(double bytes) {
  const auto whole = static_cast<uint64_t>(std::ceil(bytes));
  const uint64_t step = std::max<uint64_t>(static_cast<uint64_t>(kMiB), std::bit_floor(whole) / 16);
  const auto rounded = static_cast<int64_t>((whole + step - 1) / step * step);
  return Budget{.kind = Budget::Kind::kBytes, .bytes = rounded}.text();
}

// Of all ranks.
int64_t agreed_least(Workbench& bench, int64_t bytes) {
  if (!bench.ranks->several()) return bytes;
  int64_t least = bytes;
  for (const Ranks::Note& note : bench.ranks->meet(bytes)) least = std::min(least, note.get<int64_t>());
  return least;
}

// The remedies, in the order a user would try them. @param enough a budget that was measured to be; or "".
std::string advice(Workbench& bench, const MemoryStatement& memory, const std::string& half,
                   const std::string& enough) {
  std::vector<std::string> ways;
  if (!half.empty()) ways.push_back(half);
  if (!enough.empty()) {
    ways.push_back(enough);
  } else {
    ways.push_back(memory.floor() > memory.budget
                       ? cat("raise execution.memory.budget well above ", format_bytes(memory.floor()))
                       : "raise execution.memory.budget");
  }
  // Beside a GPU batches wait in host memory, which is in no budget.
  if (bench.loader.prefetch > 0 && !memory.on_gpu) ways.push_back("set execution.loader.prefetch: 0");
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

// What the size takes, by a trial with the limit lifted to what the device has: in words, a budget whose band
// it is in; "" when even that does not do, or it ended its process before.
std::string Planner::budget_that_is_enough(int64_t size) {
  const ProbeRecord* const known = find_size(search_->history(), size);
  const bool crashed = known != nullptr && known->outcome == ProbeOutcome::kCrashed;
  const int64_t budget = bench_.device->budget_bytes();
  const int64_t room = agreed_least(bench_, bench_.device->obtainable_bytes() - budget);
  if (crashed || room <= 0) return "";
  log::info("plan", cat("measuring what ", size, size == 1 ? " sample takes" : " samples take",
                        " with up to ", format_bytes(budget + room)));
  listener_.on_start(size);  // should the process end in this trial, the size is known for it
  const LimitScope lifted(*bench_.device, budget + room);
  const ProbeRecord record = probe_.run(shape_for(size), [](const ProbeRecord&) { return true; });
  if (record.peak_bytes == 0) return "";
  const MemoryRecipe& memory = request_.recipe.execution.memory;
  return cat("raise execution.memory.budget: ",
             readable_budget(static_cast<double>(record.peak_bytes) / memory.target_high),
             " would be enough (measured, ", format_bytes(record.peak_bytes), " at peak)");
}

void Planner::fail_smallest() {
  const auto smallest = std::min_element(
      search_->history().begin(), search_->history().end(),
      [](const ProbeRecord& a, const ProbeRecord& b) { return a.micro_batch < b.micro_batch; });
  const std::string size = cat(smallest->micro_batch, smallest->micro_batch == 1 ? " sample" : " samples");
  const MemoryStatement memory = memory_statement(bench_);
  const std::optional<Refusal> refusal = refusal_;
  std::string why = library_error_.empty() ? in_words(smallest->outcome)
                                           : cat(in_words(smallest->outcome), ": ", library_error_);
  if (smallest->fill > 1) {
    why = cat("with what libraries take, which cannot be refused to them, it came to ",
              format_percent(smallest->fill), " of the budget");
  } else if (smallest->outcome == ProbeOutcome::kCrashed) {
    why = "its process ended each time, for lack of memory or by a fault of the model's own";
  }
  const int64_t samples = smallest->micro_batch;
  const std::string half = half_that_fits(samples);
  throw Error(ExitCode::kDoesNotFit, "plan",
              cat("not even ", size, " in one micro-batch fit", samples == 1 ? "s" : "", " (", why, ")",
                  describe(memory, refusal)),
              advice(bench_, memory, half, budget_that_is_enough(samples)));
}

void Planner::fail_typed(int64_t size) {
  const std::optional<Refusal> refusal = refusal_;
  const bool smaller = size > search_->limits().minimum;
  std::string hint;
  if (const auto capacity = smaller ? search_->look_up_to(size - 1) : std::nullopt) {
    hint = cat("execution.micro_batch: ", capacity->size, " fits (measured, ",
               format_percent(capacity->record.fill), " of the budget); or auto");
  }
  const MemoryStatement memory = memory_statement(bench_);
  if (hint.empty()) {
    const std::string half = half_that_fits(size);
    // A large size may take minutes to be made.
    hint = advice(bench_, memory, half, smaller ? "" : budget_that_is_enough(size));
  }
  throw Error(ExitCode::kDoesNotFit, "execution.micro_batch",
              cat(size, " does not fit", describe(memory, refusal)), hint);
}

}  // namespace autotrain
