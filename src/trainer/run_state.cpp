#include "trainer/run_state.h"

#include <cmath>

#include "autotrain/error.h"

namespace autotrain {
namespace {

using Json = nlohmann::ordered_json;

// Every field once, for both directions.
template <class State, class Visit>
void visit_fields(State& s, Visit visit) {
  visit("updates", s.updates);
  visit("windows", s.windows);
  visit("cursor", s.cursor);
  visit("skipped", s.skipped);
  visit("consecutive_skips", s.consecutive_skips);
  visit("seconds", s.seconds);
  visit("recoveries", s.recoveries);
  visit("last_figures", s.last_figures);
  visit("best_figures", s.best_figures);
  visit("best_update", s.best_update);
  visit("evaluations_since_best", s.evaluations_since_best);
}

}  // namespace

Json RunState::to_json() const {
  Json json;
  visit_fields(*this, [&](const char* name, const auto& value) { json[name] = value; });
  return json;
}

RunState RunState::from_json(const Json& json) {
  RunState state;
  try {
    visit_fields(state, [&](const char* name, auto& value) { json.at(name).get_to(value); });
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
  return interval_.count > 0 ? static_cast<int64_t>(std::floor(passed / interval_.count)) : 0;
}

bool IntervalClock::due(const Progress& now) {
  const int64_t present = ticks(now);
  const bool passed = present > last_ticks_;
  last_ticks_ = present;
  return passed;
}

}  // namespace autotrain
