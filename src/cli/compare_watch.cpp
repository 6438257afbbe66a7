#include "cli/compare_watch.h"

#include <cmath>
#include <cstdio>

#include "autotrain/log.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/study_command.h"
#include "compare/compare_columns.h"
#include "compare/compare_tables.h"
#include "report/table.h"

namespace autotrain {

CompareWatch::CompareWatch(const char* room, const CompareOptions& options, bool talks)
    : room_(room), talks_(talks), live_(stderr) {
  terms_.figure = compared_figure(options);
  for (const NamedRecipe& named : options.recipes) terms_.recipes.push_back(named.label);
  total_ = planned_outcomes(options);
  so_far_ = analyse(terms_, {});  // a row for each recipe from the start
}

void CompareWatch::follow(CompareOptions& options) {
  options.on_progress = [this](const StudyProgress& progress) { on_progress(progress); };
  options.on_outcome = [this](const RunOutcome& outcome, bool kept) { on_outcome(outcome, kept); };
}

void CompareWatch::on_outcome(const RunOutcome& outcome, bool kept) {
  ++done_;
  std::erase_if(outcomes_, [&](const RunOutcome& earlier) {  // a shorter part of the same run
    return earlier.recipe == outcome.recipe && earlier.seed == outcome.seed;
  });
  outcomes_.push_back(outcome);
  so_far_ = analyse(terms_, outcomes_);
  if (!talks_) return;
  live_.clear();
  const std::string result = outcome.curve.empty() ? "failed: " + first_line(outcome.failure)
                                                   : cat(terms_.figure, " ", figure_of(outcome), " after ",
                                                         format_seconds(outcome.curve.back().seconds));
  log::info(room_, cat(done_, " of ", total_, ": ", outcome.recipe, ", seed ", outcome.seed,
                       outcome.share < 1 ? cat(", ", format_percent(outcome.share, 0), " of its run") : "",
                       ": ", result, kept ? " (kept)" : "", done_ < total_ ? left_ : ""));
}

void CompareWatch::on_progress(const StudyProgress& progress) {
  left_ = left_text(progress);
  if (!talks_ || !live_.due()) return;
  TextTable table({"recipe", "done", terms_.figure, "samples/s"});
  for (size_t i = 0; i < so_far_.recipes.size(); ++i) {
    const RecipeFigures& r = so_far_.recipes[i];
    const Spread& speed = spread_of(r, "samples_per_second");
    table.add_row({terms_.recipes[i], cat(r.runs), spread_text(r.final),
                   speed.count > 0 ? format_rate(speed.mean) : "-"});
  }
  live_.show(cat(table.text(), progress.done, " of ", progress.total, " · ", progress.running, left_));
}

std::string CompareWatch::figure_of(const RunOutcome& outcome) const {
  const double value = outcome.curve.back().figures.at(terms_.figure);
  return std::isfinite(value) ? brief(value) : "not finite";
}

}  // namespace autotrain
