#include "sweep/serving.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "base/json.h"
#include "base/text.h"
#include "support/support.h"
#include "sweep/arrivals.h"
#include "sweep/serving_page.h"
#include "sweep/serving_plan.h"

namespace autotrain {
namespace {

ServiceTimes small_times() {
  ServiceTimes times;
  times.add(1, {.loading = 0.001, .copying = 0.0005, .forward = 0.002, .output = 0.0005});
  times.add(4, {.loading = 0.004, .copying = 0.0005, .forward = 0.003, .output = 0.0005});
  return times;
}

StudyResult serving_round(double rate, const Serving& serving, uint64_t seed) {
  const auto arrivals = poisson_arrivals(rate, 330, seed);
  StudyResult result{
      .value =
          round_of(arrivals, simulate_queue(arrivals, serving.batching(), serving.who(), small_times()), 30)};
  result.value["peak_bytes"] = 1000;
  return result;
}

ServingSweep small_serving_sweep() {
  ServingVariant variant{.value = "fp32", .precision = "fp32", .times = {{1, small_times()}}};
  variant.machine = {{"name", "a processor"}, {"threads", 2}, {"software", "LibTorch"}};
  for (const Serving& serving : {Serving{}, Serving{.most = 4, .window_ms = 2}}) {
    ServingLine line{.serving = serving,
                     .capacity = capacity_of(serving.batching(), serving.who(), small_times())};
    for (const double rate : {50.0, 150.0, 350.0}) {
      ServingPoint point = summarise_serving(
          rate, {serving_round(rate, serving, 1), serving_round(rate, serving, 2)}, 99, 60.0);
      add_expected(serving, small_times(), 30, true,
                   {poisson_arrivals(rate, 330, 1), poisson_arrivals(rate, 330, 2)}, point);
      line.points.push_back(point);
    }
    line.points.push_back({.rate = 900, .failure = "it did not fit", .code = 71});
    variant.lines.push_back(line);
  }
  return {.name = "small", .key = "execution.precision", .latency_ms = 60, .variants = {variant}};
}

TEST(Serving, TheStagesOfARequestAddUpToItsTime) {
  for (const Serving& serving : {Serving{}, Serving{.most = 4, .window_ms = 5},
                                 Serving{.most = 4, .servers = 2, .load_ahead = true}}) {
    const auto round = serving_round(100, serving, 3).value;
    const auto latencies = round.at("latencies_seconds").get<std::vector<double>>();
    double sum = 0;
    for (const char* stage : {"waiting", "loading", "copying", "forward", "output"})
      sum += round.at(cat(stage, "_seconds")).get<double>();
    EXPECT_EQ(latencies.size(), 300u);
    EXPECT_NEAR(sum, std::accumulate(latencies.begin(), latencies.end(), 0.0) / 300, 1e-12);
  }
}

TEST(Serving, RequestsOfTheWarmUpDoNotCount) {
  const std::vector<double> arrivals = {0, 1, 2, 3};
  const std::vector<ServedBatch> served = {{.first = 2, .samples = 2, .taken = 3, .done = 4},
                                           {.first = 0, .samples = 2, .taken = 1, .done = 100}};
  const auto round = round_of(arrivals, served, 2);
  EXPECT_EQ(round.at("latencies_seconds"), nlohmann::ordered_json({2.0, 1.0}));
  EXPECT_EQ(round.at("requests"), 2);
  EXPECT_EQ(round.at("mean_batch"), 2);
  EXPECT_EQ(round.at("offered_per_second"), 1);
}

TEST(Serving, MoreThanIsServedIsUnstableAndHasNoPercentiles) {
  const ServingPoint hopeless = summarise_serving(400, {serving_round(400, {}, 1)}, 99, 60.0);
  EXPECT_TRUE(hopeless.unstable);
  EXPECT_FALSE(hopeless.p50 || hopeless.p99 || hopeless.waiting || hopeless.late);
  EXPECT_GT(hopeless.backlog, 50);
  EXPECT_LT(hopeless.served, 260);
  EXPECT_FALSE(hopeless.holds(1e9));
  const ServingPoint easy = summarise_serving(100, {serving_round(100, {}, 1)}, 99, 60.0);
  EXPECT_FALSE(easy.unstable);
  EXPECT_TRUE(easy.holds(0.06));
}

TEST(Serving, ALongBatchThatEndsLateIsNoGrowingQueue) {
  ServiceTimes slow;
  slow.add(1, {.forward = 0.6});
  slow.add(64, {.forward = 0.6});
  for (const uint64_t seed : {1, 2, 3, 4, 5}) {
    const auto arrivals = poisson_arrivals(60, 140, seed);  // of 107 that it can do
    EXPECT_FALSE(round_of(arrivals, simulate_queue(arrivals, {.most = 64}, {}, slow), 12).at("unstable"));
  }
}

// One server takes a hundredth of a second for each request, after a stall of a second at the start.
bool unstable_after_stall(double rate, uint64_t seed) {
  const auto arrivals = poisson_arrivals(rate, 3300, seed);
  std::vector<ServedBatch> served;
  double free = 1;
  for (size_t i = 0; i < arrivals.size(); ++i) {
    const double start = std::max(free, arrivals[i]);
    free = start + 0.01;
    served.push_back({.first = i,
                      .samples = 1,
                      .taken = start,
                      .loaded = start,
                      .begun = start,
                      .copied = start,
                      .computed = start,
                      .done = free});
  }
  return round_of(arrivals, served, 300).at("unstable");
}

TEST(Serving, AStallAtTheStartHidesNoGrowingQueueAndIsNone) {
  for (const uint64_t seed : {1, 2, 3, 4, 5}) {
    EXPECT_TRUE(unstable_after_stall(120, seed));
    EXPECT_FALSE(unstable_after_stall(80, seed));
  }
}

TEST(Serving, ABurstThatIsOverBeforeItIsServedTellsNothingOfARate) {
  const auto arrivals = poisson_arrivals(200'000, 220, 1);  // in a thousandth of a second
  std::vector<ServedBatch> served;
  for (size_t i = 0; i < arrivals.size(); i += 10)
    served.push_back({.first = i, .samples = 10, .taken = 0.01, .done = 0.0135});
  EXPECT_TRUE(round_of(arrivals, served, 20).at("unstable"));
}

TEST(Serving, RequestsThatWereGivenUpMakeAPointUnstable) {
  const auto arrivals = poisson_arrivals(10, 330, 1);
  auto served = simulate_queue(arrivals, {}, {}, small_times());
  served.pop_back();
  EXPECT_TRUE(round_of(arrivals, served, 30).at("unstable"));
}

TEST(Serving, OfARoundThatFailedNothingIsTold) {
  const StudyResult failed{.failure = "no memory\nat all", .code = 71};
  const ServingPoint p = summarise_serving(1, {serving_round(1, {}, 1), failed}, 99, {});
  EXPECT_EQ(p.failure, "no memory");
  EXPECT_EQ(p.code, 71);
}

TEST(Serving, WhatIsSimulatedEqualsAServiceOfExactlyThoseTimes) {
  const ServingSweep sweep = small_serving_sweep();
  for (const ServingLine& line : sweep.variants[0].lines) {
    for (const ServingPoint& p : line.points) {
      if (!p.failure.empty()) continue;
      EXPECT_EQ(p.simulated_p99.has_value(), !p.unstable);
      if (!p.unstable) {
        EXPECT_DOUBLE_EQ(*p.simulated_p99, *p.p99);
      }
      const bool has_formula = line.serving.most == 1 && p.rate < 250;
      EXPECT_EQ(p.md1_waiting.has_value(), has_formula);
      if (has_formula) {
        EXPECT_DOUBLE_EQ(*p.md1_waiting, waiting_of_md1(p.rate, 0.004));
      }
    }
  }
}

TEST(Serving, TheAdviceNamesTheBatchTheWindowAndWhatBatchesOfOneHold) {
  ServingSweep sweep = small_serving_sweep();
  const ServingVariant& variant = sweep.variants[0];
  ASSERT_TRUE(held_point(sweep, variant.lines[0]));
  EXPECT_EQ(held_point(sweep, variant.lines[0])->rate, 150);
  EXPECT_EQ(held_point(sweep, variant.lines[1])->rate, 350);
  const std::string advice = sentences_of(sweep, variant)[0];
  EXPECT_TRUE(test::holds(advice, "take batches of at most 4 and wait 2 ms for them to fill: 350 samples/s"));
  EXPECT_TRUE(test::holds(advice, "batches of 1 hold 150 samples/s"));
  sweep.latency_ms = 0.001;
  EXPECT_TRUE(test::holds(sentences_of(sweep, variant)[0], "nothing that was tried holds 0.001 ms at p99"));
  sweep.latency_ms.reset();
  EXPECT_EQ(held_point(sweep, variant.lines[0]), nullptr);
  EXPECT_TRUE(test::holds(sentences_of(sweep, variant)[0], "at which the queue did not grow is 350"));
}

// As of a trace, which has one rate.
TEST(Serving, OfLinesThatHoldOneRateTheAdviceIsTheOneOfTheSmallerLatency) {
  ServingSweep sweep = small_serving_sweep();
  ServingVariant& variant = sweep.variants[0];
  const ServingPoint held = *held_point(sweep, variant.lines[0]);
  for (ServingLine& line : variant.lines) line.points = {held};
  *variant.lines[1].points[0].asked /= 8;
  EXPECT_TRUE(test::holds(sentences_of(sweep, variant)[0], "take batches of at most 4"));
  *variant.lines[0].points[0].asked /= 16;
  EXPECT_TRUE(test::holds(sentences_of(sweep, variant)[0], "take batches of 1:"));
  sweep.latency_ms.reset();
  EXPECT_TRUE(test::holds(sentences_of(sweep, variant)[0], "by batches of 1"));
  *variant.lines[1].points[0].asked /= 8;
  EXPECT_TRUE(test::holds(sentences_of(sweep, variant)[0], "by batches of at most 4"));
}

TEST(Serving, ComesBackFromItsFile) {
  const ServingSweep sweep = small_serving_sweep();
  const auto json = to_json(sweep);
  EXPECT_EQ(to_json(serving_from_json(nlohmann::ordered_json::parse(text_of_json(json)))), json);
  EXPECT_EQ(json.at("variants")[0].at("lines")[1].at("held_rate"), 350);
}

TEST(Serving, ItsPageAndFileHaveEveryPointAndWhatIsUnstable) {
  const test::TemporaryFolder folder;
  for (const auto& file : write_serving(small_serving_sweep(), folder.path()))
    EXPECT_TRUE(std::filesystem::exists(file));
  EXPECT_TRUE(is_serving_folder(folder.path()));
  const std::string csv = test::slurp(folder / "serving.csv"), page = test::slurp(folder / "report.html");
  EXPECT_EQ(std::ranges::count(csv, '\n'), 9);
  EXPECT_TRUE(test::holds(csv, "execution.precision,fp32,fp32,4,2,1,false,false,900,it did not fit,"));
  EXPECT_TRUE(test::holds(page, "unstable: "));
  EXPECT_TRUE(test::holds(page, "batches of at most 4, waiting 2 ms, simulated"));
  EXPECT_EQ(draw_serving(folder.path()).size(), 3u);
  folder.write("serving.json", "{}");
  test::expect_error(ExitCode::kBadData, [&] { draw_serving(folder.path()); });
}

TEST(ServingPlan, CombinationsThatMeanTheSameAreThereOnce) {
  const auto all = combinations_of(
      {.batches = {1, 8}, .windows_ms = {0, 2}, .servers = {1, 2}, .processes = true, .load_ahead = true});
  // Batches of 1, of 8 and of 8 with a window; one server, two threads, two processes; both ways of loading.
  EXPECT_EQ(all.size(), 3u * 3 * 2);
  std::set<std::string> files, words;
  for (const Serving& serving : all) {
    files.insert(file_word(serving));
    words.insert(words_of(serving));
  }
  EXPECT_EQ(files.size(), all.size());
  EXPECT_EQ(words.size(), all.size());
}

TEST(ServingPlan, EnoughRequestsForAPercentileAndNoMoreThanAreAsked) {
  EXPECT_EQ(requests_at(5, 2, {}).counted, 100u);
  EXPECT_EQ(requests_at(500, 2, {}).counted, 1000u);
  EXPECT_EQ(requests_at(500, 2, {}).warm_up, 100u);
  EXPECT_EQ(requests_at(1e6, 100, {}).counted, 100'000u);
  EXPECT_EQ(requests_at(500, 2, 20).all(), 22u);
}

TEST(ServingPlan, NumbersAreRefusedByTheirOption) {
  EXPECT_EQ(numbers_in("2, 0.5,2", "--rate", 0.001), (std::vector<double>{2, 0.5}));
  for (const char* const bad : {"", "0", "-1", "1,", "x", "inf"}) {
    const Error error = test::expect_error(ExitCode::kUsage, [&] { numbers_in(bad, "--rate", 0.001); });
    EXPECT_EQ(error.where(), "--rate");
  }
}

}  // namespace
}  // namespace autotrain
