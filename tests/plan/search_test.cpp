#include "plan/search.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <set>

#include "plan/plan_enums.h"
#include "support/simulated_memory.h"

namespace autotrain {
namespace {

using test::simulate;
using test::SimulatedDevice;

SearchLimits limits_for(const SimulatedDevice& device, int64_t cap) {
  return {.budget_bytes = device.budget_bytes(),
          .cap = cap,
          .floor_bytes = device.floor_bytes(),
          .max_probes = 60};
}

ProbeRecord fits(int64_t size, double fill) {
  ProbeRecord r;
  r.micro_batch = size;
  r.fill = fill;
  r.peak_bytes = r.allocated_bytes = static_cast<int64_t>(fill * static_cast<double>(kGiB));
  return r;
}

ProbeRecord fails(int64_t size, ProbeOutcome outcome, double fill = 0) {
  ProbeRecord r = fits(size, fill);
  r.outcome = outcome;
  return r;
}

SearchLimits gib_limits(int64_t cap) {
  return {.budget_bytes = kGiB, .cap = cap};
}

struct Setting {
  size_t shape;
  double capacity;
};

class SearchShapes : public testing::TestWithParam<Setting> {};

TEST_P(SearchShapes, EndsInTheBandOrSaysWhyNotWithASizeThatWasRun) {
  const auto& shape = test::memory_shapes()[GetParam().shape];
  for (uint64_t seed = 0; seed < 20; ++seed) {
    for (const double floor : {0.02, 0.3, 0.6}) {
      SimulatedDevice device(shape, GetParam().capacity, floor, seed);
      const SearchLimits limits = limits_for(device, int64_t{1} << 40);
      const auto result = simulate(&next_size_in_band, device, limits);
      const std::string what = shape.name + " capacity " + std::to_string(GetParam().capacity);
      if (result.end.size == 0) {
        EXPECT_EQ(result.end.reason, SearchReason::kDoesNotFit) << what;
        const double room = 0.9 * shape.granted - 8 * shape.kept_growth - shape.passing_growth;
        const double one_sample = floor + (1 - floor) / GetParam().capacity + 0.01;
        EXPECT_TRUE(GetParam().capacity <= 3 || room < one_sample) << what << ": gave up although sizes fit";
        continue;
      }
      EXPECT_TRUE(result.last.fits() && result.last.confirmed) << what;
      EXPECT_LE(result.last.fill, 0.9) << what;
      if (result.end.reason == SearchReason::kInBand) {
        EXPECT_GE(result.last.fill, 0.8) << what;
      } else {
        EXPECT_EQ(result.end.reason, SearchReason::kGranularity) << what;
      }
      EXPECT_LE(result.trials, 22) << what;
    }
  }
}

std::vector<Setting> settings() {
  std::vector<Setting> all;
  for (size_t shape = 0; shape < test::memory_shapes().size(); ++shape) {
    for (const double capacity : {1.0, 3.0, 10.0, 77.0, 1000.0, 33333.0, 1e6})
      all.push_back({shape, capacity});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, SearchShapes, testing::ValuesIn(settings()));

// The textbook search, which knows no ceilings, goes up to the very edge of what is granted.
TEST(Search, FindsAtLeastHalfOfWhatBisectionFindsInEightTrialsOnAverage) {
  for (const auto& shape : test::memory_shapes()) {
    int64_t trials = 0, runs = 0;
    for (const double capacity : {10.0, 100.0, 1e3, 1e4, 1e5, 1e6}) {
      for (uint64_t seed = 0; seed < 20; ++seed) {
        SimulatedDevice a(shape, capacity, 0.1, seed), b(shape, capacity, 0.1, seed);
        const auto ours = simulate(&next_size_in_band, a, limits_for(a, int64_t{1} << 40));
        SearchLimits alone = limits_for(b, int64_t{1} << 40);
        alone.max_probes = 1000;
        const auto theirs = test::simulate_alone(&test::doubling_and_bisecting, b, alone);
        EXPECT_GE(2 * ours.end.size, theirs.end.size) << shape.name << " " << capacity << " " << seed;
        trials += ours.trials;
        ++runs;
      }
    }
    EXPECT_LE(trials, 8 * runs) << shape.name;
  }
}

TEST(Search, ACeilingBelowTheBudgetIsFoundAndFilled) {
  for (const auto& shape : test::memory_shapes()) {
    if (shape.granted >= 0.8) continue;  // then the announced band can be filled
    for (uint64_t seed = 0; seed < 20; ++seed) {
      SimulatedDevice device(shape, 5000, 0.1, seed);
      const auto result = simulate(&next_size_in_band, device, limits_for(device, int64_t{1} << 40));
      const auto granted = shape.granted * static_cast<double>(device.budget_bytes());
      EXPECT_EQ(result.end.reason, SearchReason::kInBand) << shape.name;
      EXPECT_LT(result.budget_bytes, device.budget_bytes()) << shape.name;
      EXPECT_GT(static_cast<double>(result.last.peak_bytes), 0.75 * granted) << shape.name << " " << seed;
    }
  }
}

TEST(Search, ARefusalIsAMeasurementOfTheCeiling) {
  const SearchLimits limits = gib_limits(100000);
  ProbeRecord refused = fails(400, ProbeOutcome::kRefused);
  refused.refused_bytes = kGiB * 7 / 10;
  const std::vector<ProbeRecord> history = {fits(16, 0.1), fits(256, 0.5), refused};
  EXPECT_EQ(granted_bytes(history, limits), kGiB * 7 / 10);
  refused.refused_bytes = kGiB * 4 / 10;
  EXPECT_EQ(granted_bytes({fits(256, 0.5), refused}, limits), kGiB / 2)
      << "so much was had by a trial that ran";
  refused.refused_bytes = 2 * kGiB;
  EXPECT_EQ(granted_bytes({fits(256, 0.5), refused}, limits), kGiB) << "the budget itself refused";
  EXPECT_EQ(granted_bytes({fits(256, 0.5), fails(400, ProbeOutcome::kIndexLimit)}, limits), kGiB);
}

TEST(Search, WhereALibraryFailsTheLineSaysHowMuchWasInUse) {
  const std::vector<ProbeRecord> history = {fits(100, 0.3), fits(200, 0.5),
                                            fails(300, ProbeOutcome::kLibrary)};
  EXPECT_NEAR(static_cast<double>(granted_bytes(history, gib_limits(1000))), 0.7 * kGiB, 2);
  EXPECT_EQ(granted_bytes({fits(200, 0.5), fails(300, ProbeOutcome::kCrashed)}, gib_limits(1000)), kGiB)
      << "one point is no line";
}

TEST(Search, ALineThatHasARefusedSizeInTheBandIsNotBelieved) {
  // The line would have 180 at 74 %, though it was refused: memory is steeper there.
  EXPECT_EQ(next_size_in_band({fits(20, 0.1), fits(100, 0.42), fails(180, ProbeOutcome::kRefused)},
                              gib_limits(10000))
                .size,
            128)
      << "of the grid, below the middle";
  // Here it has the refused size at 122 %, which agrees.
  const SearchStep step = next_size_in_band(
      {fits(20, 0.1), fits(100, 0.42), fails(300, ProbeOutcome::kRefused)}, gib_limits(10000));
  EXPECT_EQ(step.size, 208) << "of the grid, below 100 + 80 * (0.885 - 0.42) / 0.32";
}

TEST(Search, ATrialIsJudgedAnewByABudgetThatWasLowered) {
  ProbeRecord probe = fits(16, 0.7);
  judge(probe, kGiB * 3 / 4, 0.9);
  EXPECT_NEAR(probe.fill, 0.7 / 0.75, 1e-6);
  EXPECT_EQ(probe.outcome, ProbeOutcome::kAboveBand);
  ProbeRecord refused = fails(32, ProbeOutcome::kRefused);
  judge(refused, kGiB / 2, 0.9);
  EXPECT_EQ(refused.outcome, ProbeOutcome::kRefused);
}

TEST(Search, FillsTheRestOfTheBandWhereThatHoldsManyTimesMoreSamples) {
  SearchLimits limits = gib_limits(100000);
  limits.floor_bytes = static_cast<int64_t>(0.868 * static_cast<double>(kGiB));
  const SearchStep more = next_size_in_band({fits(16, 0.87)}, limits);
  EXPECT_FALSE(more.done) << "above the aim, but 16 samples cost 0.2 %";
  EXPECT_EQ(more.size, 128) << "of the grid, below 16 * (0.885 - 0.868) / 0.002";
}

TEST(Search, NeedsHalfTheProbesOfDoublingAndBisecting) {
  int64_t ours = 0, theirs = 0, our_samples = 0, their_samples = 0;
  for (const auto& shape : test::memory_shapes()) {
    for (const double capacity : {30.0, 300.0, 3000.0, 30000.0, 1e6}) {
      for (uint64_t seed = 0; seed < 10; ++seed) {
        SimulatedDevice a(shape, capacity, 0.1, seed), b(shape, capacity, 0.1, seed);
        ours += simulate(&next_size_in_band, a, limits_for(a, int64_t{1} << 40)).trials;
        theirs += simulate(&test::doubling_and_bisecting, b, limits_for(b, int64_t{1} << 40)).trials;
        our_samples += a.samples_run();
        their_samples += b.samples_run();
      }
    }
  }
  EXPECT_LT(2 * ours, theirs);
  EXPECT_LT(our_samples, their_samples);
}

TEST(Search, StopsAtTheCapWithItsReason) {
  SearchLimits limits = gib_limits(64);
  limits.cap_reason = SearchReason::kDataset;
  EXPECT_EQ(next_size_in_band({}, limits).size, 16);
  const SearchStep end = next_size_in_band({fits(16, 0.1), fits(64, 0.3)}, limits);
  EXPECT_TRUE(end.done);
  EXPECT_EQ(end.size, 64);
  EXPECT_EQ(end.reason, SearchReason::kDataset);
}

TEST(Search, TriesNoMoreThanTheCapAndNoLessThanTheMinimum) {
  SearchLimits limits = gib_limits(20);
  limits.minimum = 2;
  EXPECT_EQ(next_size_in_band({fits(16, 0.01)}, limits).size, 20);
  EXPECT_EQ(next_size_in_band({fails(16, ProbeOutcome::kRefused)}, limits).size, 4);
  EXPECT_EQ(
      next_size_in_band({fails(16, ProbeOutcome::kRefused), fails(4, ProbeOutcome::kRefused)}, limits).size,
      2);
  const SearchStep none = next_size_in_band({fails(2, ProbeOutcome::kRefused)}, limits);
  EXPECT_TRUE(none.done);
  EXPECT_EQ(none.size, 0);
  EXPECT_EQ(none.reason, SearchReason::kDoesNotFit);
}

TEST(Search, FindsLargestFittingSizeWhenMemoryIsNotMonotone) {
  // 40 failed although 48 fits: what was run counts, not what a line through it says.
  const SearchStep end =
      next_size_in_band({fits(16, 0.3), fails(40, ProbeOutcome::kRefused), fits(48, 0.84)}, gib_limits(1000));
  EXPECT_TRUE(end.done);
  EXPECT_EQ(end.size, 48);
}

TEST(Search, GoesOnInsideTheBandWhileManyTimesMoreIsPredictedToFit) {
  SearchLimits limits = gib_limits(1000);
  limits.floor_bytes = static_cast<int64_t>(0.81 * static_cast<double>(kGiB));
  const SearchStep more = next_size_in_band({fits(16, 0.82)}, limits);
  EXPECT_FALSE(more.done) << "16 samples cost 1 %; 64 cost 4 %";
  EXPECT_EQ(more.size, 120);
  EXPECT_EQ(next_size_in_band({fits(16, 0.82), fits(80, 0.86)}, limits).size, 120);
  EXPECT_TRUE(next_size_in_band({fits(16, 0.1), fits(80, 0.86)}, limits).done)
      << "88 would be above the band";
  const SearchStep kept = next_size_in_band({fits(16, 0.82), fails(18, ProbeOutcome::kRefused)}, limits);
  EXPECT_TRUE(kept.done) << "the grid has no size between them";
  EXPECT_EQ(kept.size, 16);
  limits.max_probes = 1;
  EXPECT_EQ(next_size_in_band({fits(16, 0.82)}, limits).reason, SearchReason::kInBand);
}

// What a search finds where a size needs so many bytes of tensors, and so many beside them.
struct Needs {
  std::function<double(int64_t size)> tensors, beside;

  ProbeRecord run(int64_t size, const SearchLimits& limits) const {
    ProbeRecord record;
    record.micro_batch = size;
    record.allocated_bytes = static_cast<int64_t>(tensors(size));
    record.peak_bytes = record.allocated_bytes + static_cast<int64_t>(beside(size));
    if (record.peak_bytes > limits.budget_bytes) {
      record = ProbeRecord{};
      record.micro_batch = size;
      record.outcome = ProbeOutcome::kRefused;
      record.refused_bytes = limits.budget_bytes + kMiB;
    }
    judge(record, limits.budget_bytes, limits.target_high);
    return record;
  }
};

struct Found {
  SearchStep end;
  std::vector<ProbeRecord> trials;
};

Found find(const Needs& needs, int64_t budget, int64_t floor, int64_t cap = int64_t{1} << 30) {
  const SearchLimits limits{.budget_bytes = budget, .cap = cap, .floor_bytes = floor};
  Found found;
  for (;;) {
    found.end = next_size_in_band(found.trials, limits);
    if (found.end.done) return found;
    found.trials.push_back(needs.run(found.end.size, limits));
  }
}

double mib(double bytes) {
  return bytes * static_cast<double>(kMiB);
}

TEST(Search, MoreBudgetNeverFindsASmallerSize) {
  const std::vector<std::function<double(int64_t)>> besides = {
      [](int64_t) { return mib(4); },
      [](int64_t n) { return mib(n < 100 ? 4 : 30); },
      [](int64_t n) { return mib(2 * std::log2(static_cast<double>(n) + 1)); },
  };
  for (const auto& beside : besides) {
    for (const double slope : {0.03, 0.4, 3.0}) {
      const Needs needs{[&](int64_t n) { return mib(150 + slope * static_cast<double>(n)); }, beside};
      int64_t before = 0;
      for (int64_t budget = 200 * kMiB; budget < 2000 * kMiB; budget += budget / 100) {
        const Found found = find(needs, budget, 140 * kMiB);
        ASSERT_GE(found.end.size, before) << budget << " of slope " << slope;
        before = found.end.size;
      }
    }
  }
}

TEST(Search, EndsOnlyWhereTheNextSizeOfTheGridLeavesTheBand) {
  for (const double weights : {10.0, 100.0, 180.0, 215.0}) {
    for (const double slope : {0.02, 0.1, 1.0}) {
      const Needs needs{[&](int64_t n) { return mib(weights + slope * static_cast<double>(n)); },
                        [](int64_t n) { return mib(n < 64 ? 3 : 6); }};
      const SearchLimits limits{.budget_bytes = 256 * kMiB, .cap = int64_t{1} << 30};
      const Found found = find(needs, 256 * kMiB, static_cast<int64_t>(mib(0.9 * weights)));
      ASSERT_TRUE(needs.run(found.end.size, limits).fits());
      const auto more = static_cast<int64_t>(1.13 * static_cast<double>(found.end.size)) + 1;
      EXPECT_FALSE(needs.run(more, limits).fits()) << weights << " + " << slope << " n: " << found.end.size;
      EXPECT_LE(found.trials.size(), 10u) << weights << " + " << slope << " n";
    }
  }
}

// A library that needs up to 35 MiB more for some shapes: peaks that were measured on a processor with AMX.
TEST(Search, LooksAboveASizeThatFailedForWhatALibraryNeedsBesideItsTensors) {
  const Needs needs{[](int64_t n) { return mib(186 + 0.06 * static_cast<double>(n)); },
                    [](int64_t n) {
                      return mib(n >= 120 && n < 230 ? 38 : n < 64 ? 4 : 12);
                    }};
  const int64_t budget = 264 * kMiB;  // the edge is at 237.6 MiB: 660 samples fit, and none of 226 to 229
  const Found found = find(needs, budget, 180 * kMiB);
  EXPECT_GE(found.end.size, 580);
  EXPECT_EQ(found.end.reason, SearchReason::kInBand);
}

TEST(Search, DoesNotStopAtATinySizeThatIsInTheBandAlready) {
  // Weights and the optimizer's state take most of the budget; the line to what is known at size 0 is steep,
  // for a first update needs more than that at any size.
  const Needs needs{[](int64_t n) { return mib(196 + 0.06 * static_cast<double>(n)); },
                    [](int64_t) { return mib(8); }};
  const Found found = find(needs, 240 * kMiB, 180 * kMiB);
  EXPECT_EQ(found.trials.front().micro_batch, 16);
  EXPECT_TRUE(found.trials.front().fits()) << "in the band at once";
  EXPECT_GE(found.end.size, 176);
  EXPECT_LE(found.trials.size(), 8u);
}

TEST(Search, TheMidpointFollowsATrialThatHardlyNarrowedTheBracket) {
  std::vector<ProbeRecord> history = {fits(100, 0.5), fails(200, ProbeOutcome::kRefused)};
  history.push_back(fails(190, ProbeOutcome::kRefused));
  EXPECT_EQ(next_size_in_band(history, gib_limits(10000)).size, 144) << "of the grid, below 145";
  history.push_back(fits(110, 0.55));
  EXPECT_EQ(next_size_in_band(history, gib_limits(10000)).size, 144) << "of the grid, below 150";
}

TEST(Search, TheBracketHalvesAtLeastEveryTwoTrialsButForTheGrid) {
  Random random(7);
  for (int n = 0; n < 200; ++n) {
    // Above an index limit no size is looked at.
    std::vector<ProbeRecord> history = {fits(1000, 0.3), fails(101000, ProbeOutcome::kIndexLimit)};
    SearchLimits limits = gib_limits(1 << 20);
    limits.max_probes = 100;
    int64_t low = 1000, high = 101000, before = high - low, trials = 0;
    for (;;) {
      const SearchStep step = next_size_in_band(history, limits);
      if (step.done) break;
      ASSERT_TRUE(step.size > low && step.size < high);
      const bool fitted = random.below(2) == 0;  // whatever the size
      (fitted ? low : high) = step.size;
      history.push_back(fitted ? fits(step.size, 0.3 + 0.4 * random.uniform())
                               : fails(step.size, ProbeOutcome::kIndexLimit));
      if (++trials % 2 == 0) {
        ASSERT_LE(static_cast<double>(high - low),
                  0.5 * static_cast<double>(before) + 0.13 * static_cast<double>(high));
        before = high - low;
      }
      ASSERT_LT(trials, 60);
    }
    EXPECT_LE(8 * (high - low), high) << "no size of the grid is between them";
  }
}

TEST(Search, PrefersMultiplesUntilOnlySingleStepsAreLeft) {
  SearchLimits limits = gib_limits(10000);
  limits.multiple_of = 8;
  EXPECT_EQ(next_size_in_band({fits(16, 0.2)}, limits).size % 8, 0);
  EXPECT_EQ(next_size_in_band({fits(64, 0.7), fails(96, ProbeOutcome::kAboveBand, 0.95)}, limits).size % 8,
            0);
  const SearchStep single =
      next_size_in_band({fits(64, 0.7), fails(72, ProbeOutcome::kAboveBand, 0.95)}, limits);
  EXPECT_FALSE(single.done);
  EXPECT_TRUE(single.size > 64 && single.size < 72);
}

TEST(Search, GranularityAndIndexLimitsAreReasons) {
  EXPECT_EQ(
      next_size_in_band({fits(5, 0.7), fails(6, ProbeOutcome::kAboveBand, 0.95)}, gib_limits(99)).reason,
      SearchReason::kGranularity);
  EXPECT_EQ(next_size_in_band({fits(5, 0.1), fails(6, ProbeOutcome::kIndexLimit)}, gib_limits(99)).reason,
            SearchReason::kIndexLimit);
}

TEST(Search, SpentProbesOrSecondsEndItWithTheBestSoFar) {
  SearchLimits limits = gib_limits(100000);
  limits.max_probes = 2;
  const SearchStep probes = next_size_in_band({fits(16, 0.1), fits(100, 0.5)}, limits);
  EXPECT_TRUE(probes.done);
  EXPECT_EQ(probes.size, 100);
  EXPECT_EQ(probes.reason, SearchReason::kSearchLimit);
  limits.max_probes = 100;
  ProbeRecord slow = fits(16, 0.1);
  slow.seconds = 1e6;
  EXPECT_EQ(next_size_in_band({slow}, limits).reason, SearchReason::kSearchLimit);
}

TEST(Search, WithEverythingSpentTheSmallestSizeIsStillTried) {
  SearchLimits limits = gib_limits(100000);
  limits.max_probes = 1;
  const SearchStep last = next_size_in_band({fails(16, ProbeOutcome::kRefused)}, limits);
  EXPECT_FALSE(last.done) << "that 16 do not fit says nothing about 1";
  EXPECT_EQ(last.size, 1);
  const SearchStep end = next_size_in_band({fails(16, ProbeOutcome::kRefused), fits(1, 0.2)}, limits);
  EXPECT_EQ(end.size, 1);
  EXPECT_EQ(end.reason, SearchReason::kSearchLimit);
}

TEST(Search, TheTextbookPivotIsThere) {
  SearchLimits limits = gib_limits(100000);
  limits.pivot = Pivot::kMidpoint;
  EXPECT_EQ(next_size_in_band({fits(16, 0.1)}, limits).size, 32);
  EXPECT_EQ(next_size_in_band({fits(32, 0.5), fails(64, ProbeOutcome::kAboveBand, 0.95)}, limits).size, 48);
}

// A device whose rate saturates: rate(n) = n ÷ (n + half).
SearchStep throughput_search(double half, double capacity, int64_t cap, std::vector<ProbeRecord>& history) {
  SearchLimits limits = gib_limits(cap);
  limits.max_probes = 40;
  for (;;) {
    const SearchStep step = next_size_for_throughput(history, limits);
    if (step.done) return step;
    const auto n = static_cast<double>(step.size);
    ProbeRecord record = fits(step.size, n / capacity);
    if (record.fill > 0.9) record = fails(step.size, ProbeOutcome::kAboveBand, record.fill);
    record.samples_per_second = record.fits() ? n / (n + half) : 0;
    history.push_back(record);
  }
}

TEST(Throughput, TakesTheSmallestSizeWithinFivePercentOfTheBest) {
  for (const double half : {0.5, 4.0, 32.0, 200.0}) {
    std::vector<ProbeRecord> history;
    const SearchStep end = throughput_search(half, 1e6, 4096, history);
    EXPECT_EQ(end.reason, SearchReason::kKnee);
    double best = 0, chosen = 0;
    for (const ProbeRecord& r : history) {
      best = std::max(best, r.samples_per_second);
      if (r.micro_batch == end.size) chosen = r.samples_per_second;
    }
    EXPECT_GE(chosen, 0.95 * best);
    for (const ProbeRecord& r : history) {
      if (r.micro_batch >= end.size) continue;
      EXPECT_LT(r.samples_per_second, 0.95 * best) << r.micro_batch;
    }
  }
}

TEST(Throughput, TheShareThatMayBeLostIsTheRecipes) {
  const std::vector<ProbeRecord> history = [] {
    std::vector<ProbeRecord> trials = {fits(8, 0.1), fits(32, 0.2), fits(128, 0.8)};
    trials[0].samples_per_second = 60, trials[1].samples_per_second = 90, trials[2].samples_per_second = 100;
    return trials;
  }();
  EXPECT_EQ(smallest_fast(history, 0.05)->micro_batch, 128);
  EXPECT_EQ(smallest_fast(history, 0.15)->micro_batch, 32);
  EXPECT_EQ(smallest_fast(history, 0.5)->micro_batch, 8);
  EXPECT_EQ(smallest_fast({fails(8, ProbeOutcome::kRefused)}, 0.5), nullptr);
  SearchLimits limits = gib_limits(128);
  for (const auto& [share, size] : {std::pair{0.0, 128}, {0.15, 32}}) {
    limits.throughput_share = share;
    EXPECT_EQ(next_size_for_throughput(history, limits).size, size) << share;
  }
}

TEST(Throughput, ASmallerSizeIsNamedWhenItIsAsFastAndTakesLess) {
  BatchPlan plan;
  plan.micro_batch = 128;
  plan.samples_per_second = 100;
  plan.search.probes = {fits(32, 0.2), fits(128, 0.8)};
  plan.search.probes[0].samples_per_second = 97;
  plan.peak_bytes = plan.search.probes[1].peak_bytes;
  plan.search.fast_micro_batch = 32;
  EXPECT_TRUE(smaller_size_advice(plan).starts_with("micro-batch 32 loses 3 % of the speed of 128"))
      << smaller_size_advice(plan);
  plan.search.probes[0].samples_per_second = 101;
  EXPECT_TRUE(smaller_size_advice(plan).starts_with("micro-batch 32 is as fast as 128"));
  plan.search.probes[0].samples_per_second = 410;
  EXPECT_TRUE(smaller_size_advice(plan).starts_with("micro-batch 32 is 4.1 times as fast as 128"))
      << smaller_size_advice(plan);
  plan.search.probes[1].samples_per_second = 400;  // its trial in the search, before it was confirmed
  EXPECT_TRUE(smaller_size_advice(plan).starts_with("micro-batch 32 is as fast as 128"))
      << smaller_size_advice(plan);
  plan.search.probes[1].samples_per_second = 100;
  plan.search.fast_micro_batch = 128;
  EXPECT_EQ(smaller_size_advice(plan), "") << "it is the plan's";
  plan.search.fast_micro_batch = 0;
  EXPECT_EQ(smaller_size_advice(plan), "") << "nothing was measured";
  plan.search.fast_micro_batch = 32;
  plan.search.probes[0].peak_bytes = plan.peak_bytes;
  EXPECT_EQ(smaller_size_advice(plan), "") << "nothing is saved";
}

TEST(Throughput, PrefersMultiples) {
  SearchLimits limits = gib_limits(4096);
  limits.multiple_of = 24;
  std::vector<ProbeRecord> history;
  for (SearchStep step; !(step = next_size_for_throughput(history, limits)).done;) {
    ProbeRecord record = fits(step.size, 0.001);
    record.samples_per_second = static_cast<double>(step.size);
    history.push_back(record);
  }
  EXPECT_GT(history.size(), 4u);
  for (const ProbeRecord& r : history) EXPECT_EQ(r.micro_batch % 24, 0) << r.micro_batch;
}

TEST(Throughput, StaysInsideMemory) {
  std::vector<ProbeRecord> history;
  const SearchStep end = throughput_search(1000, 100, 4096, history);
  EXPECT_LE(end.size, 90);
  EXPECT_GT(end.size, 0);
}

}  // namespace
}  // namespace autotrain
