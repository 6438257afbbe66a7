#include "device/timeline.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <utility>

#include "base/clock.h"
#include "device/profiler_range.h"

namespace autotrain {
namespace {

constexpr double kMillisecond = 1e-3;

// c10::Event's default could not be asked for a time.
constexpr c10::EventFlag kWithTime = c10::EventFlag::BACKEND_DEFAULT;

}  // namespace

ActivitySeconds seconds_by_activity(const std::vector<ActivitySpan>& spans) {
  ActivitySeconds seconds{};
  for (const ActivitySpan& span : spans) seconds[static_cast<size_t>(span.activity)] += span.end - span.start;
  return seconds;
}

std::vector<ActivitySpan> Timeline::Stretch::read() const {
  std::vector<ActivitySpan> spans;
  if (marks_.empty()) return spans;
  if (marks_.back().event) marks_.back().event->synchronize();
  const Mark& first = marks_.front();
  // A GPU reaches a mark later than the host that made it.
  double start = first.event ? origin_.host_seconds + origin_.event->elapsedTime(*first.event) * kMillisecond
                             : first.host_seconds;
  for (size_t i = 0; i + 1 < marks_.size(); ++i) {
    const Mark& here = marks_[i];
    const Mark& next = marks_[i + 1];
    const double seconds = here.event ? here.event->elapsedTime(*next.event) * kMillisecond
                                      : next.host_seconds - here.host_seconds;
    spans.push_back({here.activity, start, start + seconds});
    start += seconds;
  }
  return spans;
}

Timeline::Timeline(c10::Device device) : device_(device), origin_(mark(Activity::kOther)) {
  if (origin_.event) {
    origin_.event->synchronize();
    origin_.host_seconds = steady_seconds();
  }
  open_.origin_ = origin_;
  enter(Activity::kOther);
}

Timeline::~Timeline() {
  if (!device_.is_cpu()) pop_profiler_range();
}

Timeline::Stretch::Mark Timeline::mark(Activity activity) const {
  Stretch::Mark made{activity, steady_seconds()};
  if (device_.is_cpu()) return made;
  const c10::impl::VirtualGuardImpl guard(device_.type());
  made.event = std::make_shared<c10::Event>(device_.type(), kWithTime);
  made.event->record(guard.getStream(device_));
  return made;
}

void Timeline::enter(Activity activity) {
  if (!device_.is_cpu()) {
    if (!open_.marks_.empty()) pop_profiler_range();
    push_profiler_range(to_string(activity));
  }
  open_.marks_.push_back(mark(activity));
}

Timeline::Stretch Timeline::cut() {
  const Stretch::Mark boundary = mark(open_.marks_.back().activity);
  open_.marks_.push_back(boundary);
  Stretch next;
  next.origin_ = origin_;
  next.marks_.push_back(boundary);
  return std::exchange(open_, std::move(next));
}

}  // namespace autotrain
