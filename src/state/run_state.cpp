#include "state/run_state.h"

#include <utility>

#include "base/json.h"
#include "base/text.h"
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
  visit.added("update_began", s.position.update_began);
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

// Says which field it could not read.
struct NamingReader {
  const Json& json;
  const std::string& where;

  template <class Value>
  void operator()(const char* name, Value& value) const {
    read(name, [&] { FieldReader{json}(name, value); });
  }

  template <class Value>
  void added(const char* name, Value& value) const {
    read(name, [&] { FieldReader{json}.added(name, value); });
  }

  template <class Read>
  void read(const char* name, Read read_it) const {
    try {
      read_it();
    } catch (const Json::exception& error) {
      throw broken_state(where, name, error);
    }
  }
};

// What a run counts, and no run can have counted down to.
void check_counts(const RunState& s, const std::string& where) {
  const std::pair<const char*, int64_t> counts[] = {{"updates", s.position.updates},
                                                    {"windows", s.position.windows},
                                                    {"cursor", s.position.cursor},
                                                    {"learned", s.position.learned},
                                                    {"effective_batch", s.position.effective},
                                                    {"consecutive_skips", s.position.consecutive_skips},
                                                    {"uncounted", s.position.uncounted},
                                                    {"metrics_bytes", s.position.metrics_bytes},
                                                    {"skipped", s.totals.skipped},
                                                    {"recoveries", s.totals.recoveries},
                                                    {"rollbacks", s.totals.rollbacks}};
  for (const auto& [name, count] : counts) {
    if (count < 0) throw broken_state(where, cat(name, " is ", count, ", and cannot be negative"));
  }
  if (s.totals.lr_factor < 0)
    throw broken_state(where, cat("lr_factor is ", s.totals.lr_factor, ", and cannot be negative"));
}

}  // namespace

Json RunState::to_json() const {
  Json json;
  visit_fields(*this, FieldWriter{json});
  return json;
}

RunState RunState::from_json(const Json& json, const std::string& where) {
  RunState state;
  visit_fields(state, NamingReader{json, where});
  // Of a version in which the first best began it.
  if (!json.contains("patience_begun")) state.position.patience_begun = state.position.best_update >= 0;
  if (!state.position.noise.sound() || !state.position.preconditioned_noise.sound())
    throw broken_state(where, "the blocks of noise_traces or preconditioned_noise_traces do not agree");
  check_counts(state, where);
  return state;
}

Error broken_state(const std::string& where, const std::string& what) {
  return {ExitCode::kBadData, where, what, "use another checkpoint"};
}

Error broken_state(const std::string& where, const std::string& part, const Json::exception& error) {
  const std::string what =
      error.what();  // "[json.exception.type_error.302] type must be number, but is string"
  const size_t end = what.find("] ");
  return broken_state(where, cat(part, ": ", end == std::string::npos ? what : what.substr(end + 2)));
}

}  // namespace autotrain
