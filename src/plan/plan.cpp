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

std::string summary_line(const BatchPlan& plan) {
  std::string line = cat("micro ", plan.micro_batch, " · window ", plan.window, " · ranks ", plan.world_size,
                         " · effective ", plan.effective_batch, " · peak ", format_bytes(plan.peak_bytes),
                         " of ", format_bytes(plan.budget_bytes));
  if (plan.typical_fill < plan.fill) line += " · fill " + fill_in_words(plan);
  return line;
}

std::string window_in_words(const BatchPlan& plan) {
  const int64_t lane = std::max(ceil_div(plan.effective_batch, plan.lanes), plan.micro_batch);
  const int64_t rest = lane % plan.micro_batch;
  const std::string cut =
      cat(lane / plan.micro_batch, " × ", plan.micro_batch, rest > 0 ? cat(" + ", rest) : "");
  const int64_t lanes = plan.lanes / plan.world_size;
  return lanes == 1 ? cut : cat(lanes, " lanes of ", cut);
}

std::string fill_in_words(const BatchPlan& plan) {
  std::string worst = format_percent(plan.fill) + " of the budget";
  if (plan.typical_fill >= plan.fill) return worst;
  return cat(worst, " at the worst shape, typical ", format_percent(plan.typical_fill));
}

std::string smaller_size_advice(const BatchPlan& plan) {
  constexpr double kClearlyLess = 0.9;  // of the memory
  const ProbeRecord* fast = nullptr;    // the fastest of that size's trials
  for (const ProbeRecord& probe : plan.search.probes) {
    if (!probe.fits() || probe.micro_batch != plan.search.fast_micro_batch) continue;
    if (fast == nullptr || probe.samples_per_second > fast->samples_per_second) fast = &probe;
  }
  if (fast == nullptr || fast->micro_batch >= plan.micro_batch) return "";
  if (static_cast<double>(fast->peak_bytes) > kClearlyLess * static_cast<double>(plan.peak_bytes)) return "";
  const double loses = 1 - fast->samples_per_second / plan.samples_per_second;
  return cat("micro-batch ", fast->micro_batch,
             loses > 0 ? cat(" loses ", format_percent(loses, 0), " of the speed of ") : " is as fast as ",
             plan.micro_batch, " (", format_rate(fast->samples_per_second), " and ",
             format_rate(plan.samples_per_second), " samples/s in their trials) and takes ",
             format_bytes(fast->peak_bytes), " instead of ", format_bytes(plan.peak_bytes));
}

}  // namespace autotrain
