#include "autotrain/plan.h"

#include <algorithm>

#include "base/enum_names.h"
#include "base/text.h"
#include "base/units.h"
#include "plan/plan_enums.h"
#include "recipe/recipe_enums.h"

namespace autotrain {

std::string to_string(ProbeOutcome outcome) {
  return to_string<ProbeOutcome>(outcome);
}

std::string in_words(ProbeOutcome outcome) {
  switch (outcome) {
    case ProbeOutcome::kFits: return "fits";
    case ProbeOutcome::kAboveBand: return "above the band";
    case ProbeOutcome::kRefused: return "refused";
    case ProbeOutcome::kRetried: return "fits only after caches were emptied";
    case ProbeOutcome::kLibrary: return "a library ran out of memory";
    case ProbeOutcome::kIndexLimit: return "beyond what kernels can index";
    case ProbeOutcome::kTooSlow: return "too slow";
    case ProbeOutcome::kCrashed: return "its process ended";
  }
  return "";
}

std::string to_string(SearchReason reason) {
  return to_string<SearchReason>(reason);
}

std::string to_string(Origin origin) {
  return to_string<Origin>(origin);
}

std::string to_string(Precision precision) {
  return to_string<Precision>(precision);
}

std::string to_string(MemoryFormat format) {
  return to_string<MemoryFormat>(format);
}

std::string to_string(Cut cut) {
  return to_string<Cut>(cut);
}

namespace {

// The fewest samples of an update in any stage.
int64_t least_effective_batch(const BatchPlan& plan) {
  if (plan.least_effective_batch > 0) return plan.least_effective_batch;
  int64_t least = plan.effective_batch;
  for (const PlanStage& stage : plan.stages) least = std::min(least, stage.effective_batch);
  return least;
}

}  // namespace

std::string summary_line(const BatchPlan& plan) {
  const int64_t least = least_effective_batch(plan);
  std::string line =
      cat("micro ", plan.micro_batch, " · window ", plan.window, " · ranks ", plan.world_size,
          " · effective ", least < plan.effective_batch ? cat(least, " to ") : "", plan.effective_batch,
          " · peak ", format_bytes(plan.peak_bytes), " of ", format_bytes(plan.budget_bytes));
  if (plan.typical_fill < plan.fill) line += " · fill " + fill_in_words(plan);
  return line;
}

std::string window_in_words(const BatchPlan& plan) {
  return window_in_words(plan, std::max(plan.effective_batch, plan.micro_batch * plan.lanes));
}

std::string window_in_words(const BatchPlan& plan, int64_t samples) {
  const int64_t lane = ceil_div(samples, plan.lanes);
  const int64_t rest = lane % plan.micro_batch;
  const std::string whole = cat(lane / plan.micro_batch, " × ", plan.micro_batch);
  const std::string cut = rest == 0                 ? whole
                          : lane < plan.micro_batch ? cat("1 × ", rest)
                                                    : cat(whole, " + ", rest);
  const int64_t lanes = plan.lanes / plan.world_size;
  return lanes == 1 ? cut : cat(lanes, " lanes of ", cut);
}

std::vector<std::string> stages_in_words(const BatchPlan& plan) {
  std::vector<std::string> words;
  for (const PlanStage& stage : plan.stages) {
    words.push_back(cat("from sample ", stage.samples, " on: effective ", stage.effective_batch, " in ",
                        window_in_words(plan, stage.effective_batch), ", learning rate ", brief(stage.lr)));
  }
  if (plan.least_effective_batch > 0) {
    words.push_back(cat("adapted at evaluations to the gradient noise scale, from ",
                        plan.least_effective_batch, " to ", plan.effective_batch));
  }
  return words;
}

std::string fill_in_words(const BatchPlan& plan) {
  std::string worst = format_percent(plan.fill) + " of the budget";
  if (plan.typical_fill >= plan.fill) return worst;
  return cat(worst, " at the worst shape, typical ", format_percent(plan.typical_fill));
}

namespace {

// The fastest trial of a size that fitted; null: there is none.
const ProbeRecord* fastest_trial(const BatchPlan& plan, int64_t micro_batch) {
  const ProbeRecord* fast = nullptr;
  for (const ProbeRecord& probe : plan.search.probes) {
    if (!probe.fits() || probe.micro_batch != micro_batch) continue;
    if (fast == nullptr || probe.samples_per_second > fast->samples_per_second) fast = &probe;
  }
  return fast;
}

// `ratio` of the speeds of two sizes: what the smaller one is, beside the larger one.
std::string speed_in_words(double ratio) {
  constexpr double kMuchFaster = 1.05;
  if (ratio < 1) return cat("loses ", format_percent(1 - ratio, 0), " of the speed of");
  return ratio < kMuchFaster ? "is as fast as" : cat("is ", brief(ratio, 2), " times as fast as");
}

}  // namespace

std::string smaller_size_advice(const BatchPlan& plan) {
  constexpr double kClearlyLess = 0.9;  // of the memory
  const ProbeRecord* const fast = fastest_trial(plan, plan.search.fast_micro_batch);
  const ProbeRecord* const executed = fastest_trial(plan, plan.micro_batch);
  if (fast == nullptr || fast->micro_batch >= plan.micro_batch) return "";
  if (static_cast<double>(fast->peak_bytes) > kClearlyLess * static_cast<double>(plan.peak_bytes)) return "";
  const double speed = std::max(plan.samples_per_second, executed ? executed->samples_per_second : 0);
  return cat("micro-batch ", fast->micro_batch, " ", speed_in_words(fast->samples_per_second / speed), " ",
             plan.micro_batch, " (", format_rate(fast->samples_per_second), " samples/s and ",
             format_rate(speed), " in their trials) and takes ", format_bytes(fast->peak_bytes),
             " instead of ", format_bytes(plan.peak_bytes));
}

}  // namespace autotrain
