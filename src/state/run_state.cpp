#include "state/run_state.h"

#include "autotrain/error.h"
#include "base/json.h"
#include "report/figures_json.h"

namespace autotrain {
namespace {

using Json = nlohmann::ordered_json;

// Every field once, for both directions.
template <class State, class Visit>
void visit_fields(State& s, Visit visit) {
  visit("updates", s.position.updates);
  visit("windows", s.position.windows);
  visit("cursor", s.position.cursor);
  visit.added("learned", s.position.learned);
  visit.added("effective_batch", s.position.effective);
  visit("skipped", s.totals.skipped);
  visit("consecutive_skips", s.position.consecutive_skips);
  visit.added("uncounted", s.position.uncounted);
  visit("seconds", s.totals.seconds);
  visit("training_seconds", s.totals.training_seconds);
  visit("activity_seconds", s.totals.activity_seconds);
  visit("peak_bytes", s.totals.peak_bytes);
  visit("recoveries", s.totals.recoveries);
  visit("shrunk_windows", s.position.shrunk_windows);
  visit("rollbacks", s.totals.rollbacks);
  visit("lr_factor", s.totals.lr_factor);
  visit("checkpoint_stall_seconds", s.totals.checkpoint_stall_seconds);
  visit("last_figures", s.position.last_figures);
  visit("best_figures", s.position.best_figures);
  visit("figure_kinds", s.position.figure_kinds);
  visit("last_tables", s.position.last_tables);
  visit("best_update", s.position.best_update);
  visit.added("best_of", s.position.best_of);
  visit("evaluations_since_best", s.position.evaluations_since_best);
  visit("best_for_patience", s.position.best_for_patience);
  visit.added("patience_begun", s.position.patience_begun);
  visit("evaluated_update", s.position.evaluated_update);
  visit("evaluation_owed", s.position.evaluation_owed);
  visit.added("evaluation_extra", s.position.evaluation_extra);
  visit.added("plateau_factor", s.position.plateau.factor);
  visit.added("plateau_figure", s.position.plateau.figure);
  visit.added("plateau_best", s.position.plateau.best);
  visit.added("plateau_waited", s.position.plateau.waited);
  visit.added("plateau_cooling", s.position.plateau.cooling);
  visit.added("noise_from", s.position.noise_from);
  visit.added("noise_updates_each", s.position.noise.updates_each);
  visit.added("noise_updates_in_last", s.position.noise.updates_in_last);
  visit.added("noise_traces", s.position.noise.traces);
  visit.added("noise_squares", s.position.noise.squares);
  visit.added("preconditioned_noise_updates_each", s.position.preconditioned_noise.updates_each);
  visit.added("preconditioned_noise_updates_in_last", s.position.preconditioned_noise.updates_in_last);
  visit.added("preconditioned_noise_traces", s.position.preconditioned_noise.traces);
  visit.added("preconditioned_noise_squares", s.position.preconditioned_noise.squares);
  visit("metrics_bytes", s.position.metrics_bytes);
  visit.added("loss_ahead", s.position.loss_ahead);
}

}  // namespace

Json RunState::to_json() const {
  Json json;
  visit_fields(*this, FieldWriter{json});
  return json;
}

RunState RunState::from_json(const Json& json) {
  RunState state;
  try {
    visit_fields(state, FieldReader{json});
    // Of a version in which the first best began it.
    if (!json.contains("patience_begun")) state.position.patience_begun = state.position.best_update >= 0;
    if (!state.position.noise.sound() || !state.position.preconditioned_noise.sound())
      throw nlohmann::json::out_of_range::create(
          403, "the blocks of noise_traces or preconditioned_noise_traces do not agree", &json);
    if (state.position.learned < 0 || state.position.effective < 0)
      throw nlohmann::json::out_of_range::create(403, "learned or effective_batch is negative", &json);
  } catch (const nlohmann::json::exception& error) {
    throw Error(ExitCode::kBadData, "state.json", error.what(), "use another checkpoint");
  }
  return state;
}

}  // namespace autotrain
