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

std::string name_of(const Alternative& alternative) {
  return to_string(alternative.precision) +
         (alternative.recompute == Recompute::kOn ? ", recompute: on" : "");
}

Alternative plan_with(Recipe recipe, Precision precision, Recompute recompute,
                      const TrainerOptions& options) {
  recipe.execution.precision = precision;
  recipe.execution.recompute = recompute;
  Alternative alternative{.precision = precision, .recompute = recompute};
  log::info("plan", "alternative: " + name_of(alternative));
  try {
    Trainer trainer = Trainer::from_recipe(std::move(recipe), options);
    alternative.plan = trainer.plan();
  } catch (const Error& error) {
    if (error.code() != ExitCode::kDoesNotFit && error.code() != ExitCode::kBadRecipe) throw;
    alternative.why_not = first_line(error);
  }
  return alternative;
}

}  // namespace

std::vector<Alternative> plan_alternatives(const Recipe& recipe, const BatchPlan& asked,
                                           const TrainerOptions& options) {
  std::vector<Alternative> alternatives;
  for (const Precision precision : precisions_to_compare(asked.device.starts_with("cuda"))) {
    for (const Recompute recompute : {Recompute::kOff, Recompute::kOn}) {
      const bool same = precision == asked.precision && (recompute == Recompute::kOn) == asked.recompute;
      alternatives.push_back(same ? Alternative{precision, recompute, asked, ""}
                                  : plan_with(recipe, precision, recompute, options));
    }
  }
  return alternatives;
}

std::string alternatives_text(const std::vector<Alternative>& alternatives) {
  TextTable table({"with", "capacity", "fill", "executed", "samples/s", ""});
  for (const Alternative& row : alternatives) {
    if (!row.plan) {
      table.add_row({name_of(row), "-", "-", "-", "-", row.why_not});
      continue;
    }
    const BatchPlan& plan = *row.plan;
    table.add_row({name_of(row), std::to_string(plan.search.micro_batch), format_percent(plan.search.fill),
                   window_in_words(plan), format_rate(plan.samples_per_second), ""});
  }
  return table.text();
}

}  // namespace autotrain
