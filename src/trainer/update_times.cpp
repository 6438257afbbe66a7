#include "trainer/update_times.h"

#include "base/text.h"

namespace autotrain {
namespace {

std::unique_ptr<TraceFile> trace_of(const Session& session) {
  const auto& updates = session.recipe.execution.trace;
  if (!updates || session.folder == nullptr) return nullptr;
  auto trace =
      std::make_unique<TraceFile>(session.folder->path() / "trace.json", updates->at(0), updates->at(1));
  trace->advance(session.state.position.updates);
  return trace;
}

}  // namespace

UpdateTimes::UpdateTimes(const Session& session)
    : state_(session.state), trace_(trace_of(session)), last_finished_(session.start) {
  session.bench.timeline.cut();  // what was done before is no part of the first update
}

UpdateTimes::Spent UpdateTimes::count(Timeline::Stretch& stretch, double finished) {
  Spent spent{.seconds = finished - last_finished_};
  last_finished_ = finished;
  state_.totals.training_seconds += spent.seconds;
  const std::vector<ActivitySpan> spans = stretch.read();
  if (trace_) {
    for (const ActivitySpan& span : spans) {
      trace_->add("step", to_string(span.activity), span.start, span.end,
                  {{"update", state_.position.updates}});
    }
    trace_->advance(state_.position.updates);
  }
  const ActivitySeconds by_number = seconds_by_activity(spans);
  for (size_t i = 0; i < kActivities; ++i) {
    const std::string name = to_string(static_cast<Activity>(i));
    spent.by_activity[name] = by_number[i];
    state_.totals.activity_seconds[name] += by_number[i];
  }
  return spent;
}

void UpdateTimes::follow(Loader::Options& options) const {
  if (!trace_) return;
  options.on_loaded = [trace = trace_.get()](int64_t worker, double start, double end, int64_t samples) {
    trace->add(cat("loader ", worker + 1), "load", start, end, {{"samples", samples}});
  };
}

void UpdateTimes::write_trace() {
  if (trace_) trace_->write();
}

}  // namespace autotrain
