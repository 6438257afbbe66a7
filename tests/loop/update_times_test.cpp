#include "loop/update_times.h"

#include "support/fake_gpu.h"
#include "support/support.h"

namespace autotrain {
namespace {

using test::FakeGpu;
using test::TemporaryFolder;

// A loop as a run's: the host queues a window, reads the figures of the update before, and applies this one.
class FakeLoop {
 public:
  FakeLoop() : timeline_(gpu_.marks()), times(timeline_, state, nullptr) {}

  void window(double passes_seconds) {
    timeline_.enter(Activity::kForward);
    gpu_.queue(passes_seconds);
    gpu_.host_works(0.001);
    read();
    timeline_.enter(Activity::kUpdate);
    gpu_.queue(kUpdateSeconds);
    timeline_.enter(Activity::kOther);
    queued_ = timeline_.cut();
    done_ = gpu_.marks()();
  }

  // The data come late, and the device, done with everything else, has nothing to do for so long.
  void late_data(double seconds) {
    gpu_.wait();
    timeline_.enter(Activity::kDataWait);
    gpu_.host_works(seconds);
  }

  void read() {
    if (!queued_) return;
    timeline_.enter(Activity::kOther);
    ++state.position.updates;
    const double figures_read = done_->wait();
    spent.push_back(times.count(*std::exchange(queued_, std::nullopt)));
    EXPECT_EQ(gpu_.host(), figures_read) << "counting waits for nothing else";
  }

  void evaluate(double seconds) { pause(Activity::kEvaluation, seconds); }
  void checkpoint(double seconds) { pause(Activity::kCheckpoint, seconds); }

  static constexpr double kUpdateSeconds = 0.25;

 private:
  void pause(Activity activity, double seconds) {
    read();
    timeline_.enter(activity);
    gpu_.queue(seconds);
    timeline_.enter(Activity::kOther);
    leave_out();
  }

  void leave_out() {
    const double before = gpu_.host();
    times.leave_out();
    EXPECT_EQ(gpu_.host(), before) << "nothing in mid-run waits for the device";
  }

  FakeGpu gpu_;
  Timeline timeline_;
  std::optional<Timeline::Stretch> queued_;
  std::shared_ptr<const WorkPoint> done_;  // the device with the update that is queued

 public:
  RunState state;
  UpdateTimes times;
  std::vector<UpdateTimes::Spent> spent;
};

TEST(UpdateTimes, EveryUpdateHasItsOwnTimeHoweverFarTheHostIsAhead) {
  FakeLoop loop;
  const std::vector<double> passes = {4, 1, 2, 0.5, 8, 1};
  for (const double seconds : passes) loop.window(seconds);
  loop.read();
  ASSERT_EQ(loop.spent.size(), passes.size());
  double all = 0;
  for (size_t i = 0; i < passes.size(); ++i) {
    EXPECT_NEAR(loop.spent[i].seconds, passes[i] + FakeLoop::kUpdateSeconds, 0.002) << i;
    EXPECT_NEAR(loop.spent[i].by_activity.at("forward"), passes[i], 0.002) << i;
    EXPECT_NEAR(loop.spent[i].by_activity.at("update"), FakeLoop::kUpdateSeconds, 0.002) << i;
    all += loop.spent[i].seconds;
  }
  EXPECT_NEAR(loop.state.totals.training_seconds, all, 1e-9);
}

TEST(UpdateTimes, EvaluationsAndCheckpointsAreOfNoUpdateAndInTheTotals) {
  FakeLoop loop;
  for (int i = 1; i <= 6; ++i) {
    loop.window(1);
    if (i % 2 == 0) loop.evaluate(30);
    if (i % 3 == 0) loop.checkpoint(20);
  }
  loop.read();
  loop.times.finish();
  for (const UpdateTimes::Spent& spent : loop.spent) {
    EXPECT_NEAR(spent.seconds, 1 + FakeLoop::kUpdateSeconds, 0.01);
    EXPECT_EQ(spent.by_activity.at("evaluation"), 0);
    EXPECT_EQ(spent.by_activity.at("checkpoint"), 0);
  }
  const Totals& totals = loop.state.totals;
  EXPECT_NEAR(totals.training_seconds, 6 * (1 + FakeLoop::kUpdateSeconds), 0.05);
  EXPECT_NEAR(totals.activity_seconds.at("evaluation"), 90, 0.05);
  EXPECT_NEAR(totals.activity_seconds.at("checkpoint"), 40, 0.05);
  EXPECT_NEAR(totals.activity_seconds.at("forward"), 6, 0.05);
}

TEST(UpdateTimes, WaitingForDataIsOfTheUpdateThatWaited) {
  FakeLoop loop;
  loop.window(1);
  loop.window(1);
  loop.late_data(5);
  loop.window(1);
  loop.window(1);
  loop.read();
  ASSERT_EQ(loop.spent.size(), 4U);
  EXPECT_NEAR(loop.spent[2].by_activity.at("data_wait"), 5, 0.01);
  EXPECT_NEAR(loop.spent[2].seconds, 6 + FakeLoop::kUpdateSeconds, 0.01);
  for (const size_t i : {0U, 1U, 3U}) EXPECT_NEAR(loop.spent[i].by_activity.at("data_wait"), 0, 0.01) << i;
}

TEST(UpdateTimes, SecondsAreAboveZeroWhereTheClockShowsNone) {
  FakeGpu gpu;
  Timeline timeline(gpu.marks());
  RunState state;
  UpdateTimes times(timeline, state, nullptr);
  EXPECT_GT(times.count(timeline.cut()).seconds, 0);
}

}  // namespace
}  // namespace autotrain
