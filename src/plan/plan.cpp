#include "autotrain/plan.h"

#include <algorithm>

#include "base/enum_names.h"
#include "base/text.h"
#include "base/units.h"
#include "plan/words.h"
#include "recipe/words.h"

namespace autotrain {

std::string to_string(ProbeOutcome outcome) {
  return std::string(name_of(outcome));
}
std::string to_string(SearchReason reason) {
  return std::string(name_of(reason));
}
std::string to_string(Origin origin) {
  return std::string(name_of(origin));
}
std::string to_string(Precision precision) {
  return std::string(name_of(precision));
}

std::string to_string(MemoryFormat format) {
  return std::string(name_of(format));
}

std::string to_string(Cut cut) {
  return std::string(name_of(cut));
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
  const std::string worst = format_percent(plan.fill) + " of the budget";
  if (plan.typical_fill >= plan.fill) return worst;
  return cat(worst, " at the worst shape, typical ", format_percent(plan.typical_fill));
}

}  // namespace autotrain
