#include "loop/update_times.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace autotrain {
namespace {

constexpr double kLeastSeconds = 5e-7;  // what events of CUDA can tell apart

}  // namespace

std::unique_ptr<TraceFile> trace_of(const Session& session) {
  const auto& updates = session.recipe.execution.trace;
  if (!updates || session.folder == nullptr) return nullptr;
  return std::make_unique<TraceFile>(session.folder->path() / "trace.json", updates->at(0), updates->at(1));
}

UpdateTimes::UpdateTimes(Timeline& timeline, RunState& state, std::unique_ptr<TraceFile> trace)
    : timeline_(timeline), state_(state), trace_(std::move(trace)) {
  timeline_.restart();
  if (trace_) trace_->advance(state_.position.updates);
}

UpdateTimes::Spent UpdateTimes::count(const Timeline::Stretch& stretch) {
  add_left_out();
  const ActivitySeconds by_number = add(stretch);
  if (trace_) trace_->advance(state_.position.updates);
  Spent spent;
  for (size_t i = 0; i < kActivities; ++i) {
    spent.seconds += by_number[i];
    spent.by_activity[to_string(static_cast<Activity>(i))] = by_number[i];
  }
  spent.seconds = std::max(kLeastSeconds, spent.seconds);
  state_.totals.training_seconds += spent.seconds;
  return spent;
}

void UpdateTimes::leave_out() {
  left_out_.push_back(timeline_.cut());
}

void UpdateTimes::follow(Loader::Options& options) const {
  if (!trace_) return;
  options.on_loaded = [trace = trace_.get()](int64_t worker, double start, double end, int64_t samples) {
    trace->add(cat("loader ", worker + 1), "load", start, end, {{"samples", samples}});
  };
}

void UpdateTimes::finish() {
  leave_out();
  add_left_out();
  if (trace_) trace_->write();
}

// Into the totals and the trace.
ActivitySeconds UpdateTimes::add(const Timeline::Stretch& stretch) {
  const std::vector<ActivitySpan> spans = stretch.read();
  if (trace_) {
    for (const ActivitySpan& span : spans) {
      trace_->add("step", to_string(span.activity), span.start, span.end,
                  {{"update", state_.position.updates}});
    }
  }
  const ActivitySeconds by_number = seconds_by_activity(spans);
  for (size_t i = 0; i < kActivities; ++i)
    state_.totals.activity_seconds[to_string(static_cast<Activity>(i))] += by_number[i];
  return by_number;
}

void UpdateTimes::add_left_out() {
  for (const Timeline::Stretch& stretch : std::exchange(left_out_, {})) add(stretch);
}

}  // namespace autotrain
