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
  const int64_t share = std::max(ceil_div(plan.effective_batch, plan.world_size), plan.micro_batch);
  const int64_t rest = share % plan.micro_batch;
  return cat(share / plan.micro_batch, " × ", plan.micro_batch, rest > 0 ? cat(" + ", rest) : "");
}

std::string fill_in_words(const BatchPlan& plan) {
  std::string worst = format_percent(plan.fill) + " of the budget";
  if (plan.typical_fill >= plan.fill) return worst;
  return cat(worst, " at the worst shape, typical ", format_percent(plan.typical_fill));
}

}  // namespace autotrain
