#include "device/timeline.h"

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <utility>

#include "base/clock.h"
#include "device/profiler_range.h"

namespace autotrain {
namespace {

// A CPU does at once what it is asked.
class HostPoint final : public WorkPoint {
 public:
  double wait() const override { return seconds_; }
  double seconds_since(const WorkPoint& earlier) const override {
    return seconds_ - static_cast<const HostPoint&>(earlier).seconds_;
  }

 private:
  const double seconds_ = steady_seconds();
};

// CUDA tells the time between two events in milliseconds as float32: so it is asked of neighbours only.
class EventPoint final : public WorkPoint {
 public:
  explicit EventPoint(c10::Device device) : event_(device.type(), kWithTime) {
    event_.record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  }

  double wait() const override {
    event_.synchronize();
    return steady_seconds();
  }

  double seconds_since(const WorkPoint& earlier) const override {
    constexpr double kMillisecond = 1e-3;
    return static_cast<const EventPoint&>(earlier).event_.elapsedTime(event_) * kMillisecond;
  }

 private:
  // c10::Event's default could not be asked for a time.
  static constexpr c10::EventFlag kWithTime = c10::EventFlag::BACKEND_DEFAULT;

  c10::Event event_;
};

}  // namespace

MarkWork work_marks(c10::Device device) {
  if (device.is_cpu()) return [] { return std::make_shared<HostPoint>(); };
  return [device] { return std::make_shared<EventPoint>(device); };
}

ActivitySeconds seconds_by_activity(const std::vector<ActivitySpan>& spans) {
  ActivitySeconds seconds{};
  for (const ActivitySpan& span : spans) seconds[static_cast<size_t>(span.activity)] += span.end - span.start;
  return seconds;
}

// A GPU reaches a mark later than the host that made it, so where spans lie on the host's clock is told by
// what was read before.
std::vector<ActivitySpan> Timeline::Stretch::read() const {
  std::vector<ActivitySpan> spans;
  if (marks_.empty()) return spans;
  marks_.back().point->wait();
  double start = anchor_->seconds + marks_.front().point->seconds_since(*anchor_->point);
  for (size_t i = 0; i + 1 < marks_.size(); ++i) {
    const double end = start + marks_[i + 1].point->seconds_since(*marks_[i].point);
    spans.push_back({marks_[i].activity, start, end});
    start = end;
  }
  *anchor_ = {marks_.back().point, start};
  return spans;
}

Timeline::Timeline(c10::Device device)
    : named_(!device.is_cpu()), mark_(work_marks(device)), anchor_(std::make_shared<Stretch::Anchor>()) {
  restart();
}

Timeline::Timeline(MarkWork mark)
    : named_(false), mark_(std::move(mark)), anchor_(std::make_shared<Stretch::Anchor>()) {
  restart();
}

Timeline::~Timeline() {
  if (named_) pop_profiler_range();
}

void Timeline::restart() {
  if (named_ && !open_.marks_.empty()) pop_profiler_range();
  const Stretch::Point here = mark_();
  const double seconds = here->wait();
  *anchor_ = {here, seconds};
  open_.marks_ = {{Activity::kOther, here}};
  open_.anchor_ = anchor_;
  if (named_) push_profiler_range(to_string(Activity::kOther));
}

void Timeline::enter(Activity activity) {
  if (named_) {
    pop_profiler_range();
    push_profiler_range(to_string(activity));
  }
  open_.marks_.push_back({activity, mark_()});
}

Timeline::Stretch Timeline::cut() {
  Stretch next;
  next.marks_ = {{open_.marks_.back().activity, mark_()}};
  next.anchor_ = anchor_;
  open_.marks_.push_back(next.marks_.front());
  return std::exchange(open_, std::move(next));
}

}  // namespace autotrain
