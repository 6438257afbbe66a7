#include "cli/alternatives.h"

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "base/text.h"
#include "base/units.h"
#include "device/failure.h"
#include "plan/plan_enums.h"
#include "report/table.h"
#include "step/precision.h"

namespace autotrain {
namespace {

Alternative plan_in(Recipe recipe, Precision precision, const TrainerOptions& options) {
  recipe.execution.precision = precision;
  log::info("plan", cat("alternative: ", to_string(precision)));
  try {
    Trainer trainer = Trainer::from_recipe(std::move(recipe), options);
    return {precision, trainer.plan(), ""};
  } catch (const Error& error) {
    if (error.code() != ExitCode::kDoesNotFit) throw;
    return {precision, std::nullopt, first_line(error)};
  }
}

}  // namespace

std::vector<Alternative> plan_alternatives(const Recipe& recipe, const BatchPlan& asked,
                                           const TrainerOptions& options) {
  std::vector<Alternative> alternatives;
  for (const Precision precision : precisions_to_compare(asked.device.starts_with("cuda"))) {
    alternatives.push_back(precision == asked.precision ? Alternative{precision, asked, ""}
                                                        : plan_in(recipe, precision, options));
  }
  return alternatives;
}

std::string alternatives_text(const std::vector<Alternative>& alternatives) {
  TextTable table({"precision", "capacity", "fill", "executed", "samples/s", ""});
  for (const Alternative& row : alternatives) {
    if (!row.plan) {
      table.add_row({to_string(row.precision), "-", "-", "-", "-", row.why_not});
      continue;
    }
    const BatchPlan& plan = *row.plan;
    table.add_row({to_string(row.precision), std::to_string(plan.search.micro_batch),
                   format_percent(plan.search.fill), window_in_words(plan),
                   format_rate(plan.samples_per_second), ""});
  }
  return table.text();
}

}  // namespace autotrain
