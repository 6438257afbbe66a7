#include "setup/horizon.h"

#include <cmath>

#include "loop/agenda.h"
#include "state/run_state.h"
#include "support/support.h"

namespace autotrain {
namespace {

Recipe stopping(std::optional<double> epochs, std::optional<int64_t> updates,
                std::optional<int64_t> samples) {
  Recipe r;
  r.stop.epochs = epochs;
  r.stop.updates = updates;
  r.stop.samples = samples;
  return r;
}

TEST(Horizon, TheFirstLimitReachedWins) {
  EXPECT_EQ(*horizon_of(stopping(2, {}, {}), 1000, 300).updates, 6);
  EXPECT_EQ(*horizon_of(stopping(2, 5, {}), 1000, 300).updates, 5);
  EXPECT_EQ(*horizon_of(stopping(2, 5, 1000), 1000, 300).updates, 3);
  EXPECT_EQ(horizon_of(stopping(2, 5, 1000), 1000, 300).stopped_by, StopReason::kSamples);
  EXPECT_FALSE(horizon_of(stopping({}, {}, {}), 1000, 300).updates);
}

TEST(Horizon, KeepsTheRemainderWhenAsked) {
  Recipe r = stopping(1, {}, {});
  r.stop.keep_last = true;
  EXPECT_EQ(*horizon_of(r, 1000, 300).updates, 4);
  EXPECT_EQ(horizon_of(r, 1000, 300).last_window, 100);
  EXPECT_EQ(horizon_of(r, 900, 300).last_window, 0);
  EXPECT_EQ(*horizon_of(r, 100, 300).updates, 1);
}

TEST(Horizon, ARunWithoutAnUpdateIsARecipeError) {
  const Error error =
      test::expect_error(ExitCode::kBadRecipe, [] { horizon_of(stopping(0.1, {}, {}), 1000, 300); });
  EXPECT_TRUE(test::holds(error.what(), "stop.epochs"));
}

TEST(IntervalClock, IsDueAtTheFirstLookAfterEachMultiple) {
  IntervalClock clock(*Interval::parse("1 epoch"), {.dataset_size = 100});
  EXPECT_FALSE(clock.due({.samples = 96, .dataset_size = 100}));
  EXPECT_TRUE(clock.near({.samples = 128, .dataset_size = 100}));
  EXPECT_TRUE(clock.due({.samples = 128, .dataset_size = 100}));
  EXPECT_FALSE(clock.due({.samples = 160, .dataset_size = 100}));
  EXPECT_TRUE(clock.due({.samples = 400, .dataset_size = 100})) << "several at once are one";
  EXPECT_FALSE(clock.due({.samples = 450, .dataset_size = 100}));
}

TEST(IntervalClock, StartsWhereARunWasResumed) {
  IntervalClock clock(*Interval::parse("10 updates"), {.updates = 30});
  EXPECT_FALSE(clock.due({.updates = 31}));
  EXPECT_TRUE(clock.due({.updates = 40}));
  IntervalClock never(Interval{}, {});
  EXPECT_FALSE(never.due({.updates = 1000000, .samples = 1000000, .seconds = 1e9}));
}

TEST(RunState, ReadsBackWhatItWrites) {
  RunState state{.position = {.updates = 3, .windows = 5, .cursor = 500, .best_update = 2},
                 .totals = {.skipped = 2, .seconds = 1.5}};
  state.position.best_figures = {{"loss", 0.5}};
  EXPECT_EQ(RunState::from_json(state.to_json()).to_json(), state.to_json());
  auto broken = state.to_json();
  broken.erase("cursor");
  test::expect_error(ExitCode::kBadData, [&] { RunState::from_json(broken); });
  broken = state.to_json();
  broken["updates"] = "three";
  test::expect_error(ExitCode::kBadData, [&] { RunState::from_json(broken); });
}

TEST(IntervalClock, AnIntervalTooSmallToCountIsDueAtEveryLook) {
  IntervalClock clock(*Interval::parse("1e-300 epochs"), {});
  EXPECT_TRUE(clock.due({.samples = 10, .dataset_size = 100}));
  EXPECT_TRUE(clock.due({.samples = 20, .dataset_size = 100}));
}

TEST(RunState, FiguresThatAreNotFiniteSurviveJson) {
  RunState state;
  state.position.updates = 7;
  state.position.last_figures = {{"loss", std::nan("")}, {"accuracy", 0.25}};
  const RunState read = RunState::from_json(nlohmann::ordered_json::parse(state.to_json().dump()));
  EXPECT_TRUE(std::isnan(read.position.last_figures.at("loss")));
  EXPECT_EQ(read.position.last_figures.at("accuracy"), 0.25);
  EXPECT_EQ(read.position.updates, 7);
}

TEST(Horizon, PartsOfAnEpochLoseNoUpdateToRounding) {
  EXPECT_EQ(*horizon_of(stopping(1.15, {}, {}), 50'000, 500).updates, 115);
  EXPECT_EQ(horizon_of(stopping(1.15, {}, {}), 50'000, 500).samples, 57'500);
  EXPECT_EQ(samples_to_stop(stopping({}, int64_t{1} << 53, {}), 100, int64_t{1} << 20), int64_t{1} << 62);
}

// Each update is of a sample, so that every event has its own.
TEST(IntervalClock, PartsOfAnEpochAreDueAtTheirSample) {
  for (const auto& [every, samples] :
       {std::pair{"0.1 epochs", 100}, {"0.3 epochs", 300}, {"0.07 epochs", 70}}) {
    IntervalClock clock(*Interval::parse(every), {.dataset_size = 1000});
    for (int64_t sample = 1; sample <= 5000; ++sample)
      EXPECT_EQ(clock.due({.samples = sample, .dataset_size = 1000}), sample % samples == 0)
          << every << " at sample " << sample;
  }
}

}  // namespace
}  // namespace autotrain
