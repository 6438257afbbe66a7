#include "device/timeline.h"

#include "base/clock.h"
#include "support/fake_gpu.h"

namespace autotrain {
namespace {

using test::FakeGpu;

double seconds_of(const std::vector<ActivitySpan>& spans, Activity activity) {
  return seconds_by_activity(spans)[static_cast<size_t>(activity)];
}

TEST(Timeline, MeasuresTheDeviceAndNotItsHost) {
  FakeGpu gpu;
  Timeline timeline(gpu.marks());
  timeline.enter(Activity::kForward);
  gpu.queue(2);
  timeline.enter(Activity::kBackward);
  gpu.queue(3);
  timeline.enter(Activity::kDataWait);
  gpu.host_works(6);  // of which the device has work for five
  timeline.enter(Activity::kUpdate);
  gpu.queue(0.5);
  const Timeline::Stretch stretch = timeline.cut();
  EXPECT_EQ(gpu.host(), 6) << "marks wait for nobody";
  gpu.wait();
  const auto spans = stretch.read();
  EXPECT_NEAR(seconds_of(spans, Activity::kForward), 2, 1e-6);
  EXPECT_NEAR(seconds_of(spans, Activity::kBackward), 3, 1e-6);
  EXPECT_NEAR(seconds_of(spans, Activity::kDataWait), 1, 1e-6);
  EXPECT_NEAR(seconds_of(spans, Activity::kUpdate), 0.5, 1e-6);
}

TEST(Timeline, StretchesFollowEachOtherWithoutGaps) {
  FakeGpu gpu;
  gpu.host_works(100);
  Timeline timeline(gpu.marks());
  double end = 100;
  for (int i = 1; i <= 5; ++i) {
    timeline.enter(Activity::kForward);
    gpu.queue(0.25 * i);
    const Timeline::Stretch stretch = timeline.cut();
    gpu.wait();
    const auto spans = stretch.read();
    EXPECT_NEAR(spans.front().start, end, 1e-6);
    end = spans.back().end;
    EXPECT_NEAR(end, gpu.host(), 1e-5);
  }
}

// In milliseconds of single precision ten hours have steps of four milliseconds.
TEST(Timeline, AnUpdateAfterManyHoursIsMeasuredAsExactly) {
  FakeGpu gpu;
  Timeline timeline(gpu.marks());
  gpu.queue(36000);
  const Timeline::Stretch long_one = timeline.cut();
  gpu.wait();
  long_one.read();
  for (int i = 0; i < 3; ++i) {
    timeline.enter(Activity::kForward);
    gpu.queue(0.0001);
    const Timeline::Stretch stretch = timeline.cut();
    gpu.wait();
    const auto spans = stretch.read();
    EXPECT_NEAR(seconds_of(spans, Activity::kForward), 0.0001, 1e-9);
    EXPECT_NEAR(spans.back().end, gpu.host(), 0.005) << "where it lies on the host's clock";
  }
}

TEST(Timeline, ARestartDropsWhatWasAndBeginsAtThePresent) {
  FakeGpu gpu;
  Timeline timeline(gpu.marks());
  timeline.enter(Activity::kForward);
  gpu.queue(36000);
  timeline.restart();
  EXPECT_EQ(gpu.host(), 36000);
  timeline.enter(Activity::kBackward);
  gpu.queue(0.001);
  const Timeline::Stretch stretch = timeline.cut();
  gpu.wait();
  const auto spans = stretch.read();
  EXPECT_EQ(seconds_of(spans, Activity::kForward), 0);
  EXPECT_NEAR(spans.front().start, 36000, 1e-9);
  EXPECT_NEAR(spans.back().end - spans.front().start, 0.001, 1e-9);
}

TEST(Timeline, OnACpuSpansLieOnTheSteadyClock) {
  const double before = steady_seconds();
  Timeline timeline(c10::DeviceType::CPU);
  timeline.enter(Activity::kForward);
  timeline.enter(Activity::kBackward);
  const auto spans = timeline.cut().read();
  const double after = steady_seconds();
  ASSERT_EQ(spans.size(), 3U);
  EXPECT_GE(spans.front().start, before - 1e-6);
  EXPECT_LE(spans.back().end, after + 1e-6);
  for (const ActivitySpan& span : spans) EXPECT_GE(span.end, span.start);
}

}  // namespace
}  // namespace autotrain
