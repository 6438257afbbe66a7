#include "trainer/run_state.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "autotrain/error.h"
#include "base/json.h"
#include "report/figures_json.h"

namespace autotrain {
namespace {

using Json = nlohmann::ordered_json;

// JSON has no number that is not finite: such a figure is written as null, and null is NaN.
void read_field(const Json& json, std::map<std::string, double>& figures) {
  for (const auto& [name, value] : json.items()) {
    figures[name] = value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
  }
}

void read_field(const Json& json, FigureKinds& kinds) {
  kinds = kinds_from_json(json);
}

void read_field(const Json& json, std::vector<FigureTable>& tables) {
  tables = tables_from_json(json);
}

template <class Value>
void read_field(const Json& json, Value& value) {
  read_exactly(json, value);
}

Json field_to_json(const FigureKinds& kinds) {
  return kinds_to_json(kinds);
}

Json field_to_json(const std::vector<FigureTable>& tables) {
  return tables_to_json(tables);
}

template <class Value>
Json field_to_json(const Value& value) {
  return value;
}

// Every field once, for both directions.
template <class State, class Visit>
void visit_fields(State& s, Visit visit) {
  visit("updates", s.updates);
  visit("windows", s.windows);
  visit("cursor", s.cursor);
  visit("skipped", s.skipped);
  visit("consecutive_skips", s.consecutive_skips);
  visit("seconds", s.seconds);
  visit("training_seconds", s.training_seconds);
  visit("activity_seconds", s.activity_seconds);
  visit("peak_bytes", s.peak_bytes);
  visit("recoveries", s.recoveries);
  visit("shrunk_windows", s.shrunk_windows);
  visit("rollbacks", s.rollbacks);
  visit("lr_factor", s.lr_factor);
  visit("checkpoint_stall_seconds", s.checkpoint_stall_seconds);
  visit("last_figures", s.last_figures);
  visit("best_figures", s.best_figures);
  visit("figure_kinds", s.figure_kinds);
  visit("last_tables", s.last_tables);
  visit("best_update", s.best_update);
  visit("evaluations_since_best", s.evaluations_since_best);
  visit("best_for_patience", s.best_for_patience);
  visit("evaluated_update", s.evaluated_update);
  visit("evaluation_owed", s.evaluation_owed);
  visit("metrics_bytes", s.metrics_bytes);
}

}  // namespace

Json RunState::to_json() const {
  Json json;
  visit_fields(*this, [&](const char* name, const auto& value) { json[name] = field_to_json(value); });
  return json;
}

RunState RunState::from_json(const Json& json) {
  RunState state;
  try {
    visit_fields(state, [&](const char* name, auto& value) { read_field(json.at(name), value); });
  } catch (const nlohmann::json::exception& error) {
    throw Error(ExitCode::kBadData, "state.json", error.what(), "use another checkpoint");
  }
  return state;
}

IntervalClock::IntervalClock(Interval interval, const Progress& start)
    : interval_(interval), last_ticks_(ticks(start)) {}

int64_t IntervalClock::ticks(const Progress& now) const {
  const double passed = [&] {
    switch (interval_.unit) {
      case Interval::Unit::kNever: return 0.0;
      case Interval::Unit::kUpdates: return static_cast<double>(now.updates);
      case Interval::Unit::kSamples: return static_cast<double>(now.samples);
      case Interval::Unit::kEpochs:
        return static_cast<double>(now.samples) / static_cast<double>(now.dataset_size);
      case Interval::Unit::kMinutes: return now.seconds / 60;
    }
    return 0.0;
  }();
  return interval_.count > 0 ? static_cast<int64_t>(std::min(std::floor(passed / interval_.count), 0x1p62))
                             : 0;
}

bool IntervalClock::due(const Progress& now) {
  const int64_t present = ticks(now);
  const bool passed = present > last_ticks_;
  last_ticks_ = present;
  return passed;
}

}  // namespace autotrain
