#include "sweep/queue_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <thread>

#include "base/random.h"
#include "base/text.h"
#include "support/support.h"
#include "sweep/arrivals.h"
#include "sweep/rate_search.h"
#include "sweep/request_queue.h"

namespace autotrain {
namespace {

ServiceTimes constant_times(double seconds) {
  ServiceTimes times;
  for (const int64_t samples : {1, 64}) times.add(samples, {.forward = seconds});
  return times;
}

ServiceTimes growing_times() {
  ServiceTimes times;
  times.add(1, {.loading = 0.1, .forward = 0.2});
  times.add(8, {.loading = 0.8, .forward = 0.4});
  return times;
}

// A policy that knows no future: at every moment at which something may change it looks at what is there.
std::vector<ServedBatch> watched_queue(const std::vector<double>& arrivals, const Batching& batching,
                                       size_t servers, const ServiceTimes& times) {
  std::vector<double> free(servers, 0);
  std::vector<ServedBatch> served;
  std::deque<size_t> queue;
  size_t next = 0;
  double now = 0;
  while (next < arrivals.size() || !queue.empty()) {
    while (next < arrivals.size() && arrivals[next] <= now) queue.push_back(next++);
    double& server = *std::ranges::min_element(free);
    const bool full = std::ssize(queue) >= batching.most;
    const bool due = !queue.empty() && now >= arrivals[queue.front()] + batching.window_seconds;
    if (server <= now && (full || due)) {
      const size_t samples = std::min(queue.size(), static_cast<size_t>(batching.most));
      server = now + times.at(static_cast<int64_t>(samples)).all();
      served.push_back({.first = queue.front(), .samples = samples, .taken = now, .done = server});
      queue.erase(queue.begin(), queue.begin() + static_cast<std::ptrdiff_t>(samples));
      continue;
    }
    double later = std::numeric_limits<double>::infinity();
    const auto consider = [&](double time) {
      if (time > now) later = std::min(later, time);
    };
    if (next < arrivals.size()) consider(arrivals[next]);
    if (!queue.empty()) consider(arrivals[queue.front()] + batching.window_seconds);
    consider(server);
    now = later;
  }
  return served;
}

struct RandomCase {
  std::vector<double> arrivals;
  Batching batching;
  Servers servers;
};

RandomCase random_case(uint64_t seed) {
  Random random(seed);
  return {.arrivals = poisson_arrivals(0.2 + 20 * random.uniform(), 200, seed),
          .batching = {.most = 1 + random.below(8),
                       .window_seconds = random.below(2) == 1 ? random.uniform() : 0},
          .servers = {.count = 1 + random.below(3), .load_ahead = random.below(2) == 1}};
}

TEST(Queue, ABatchStartsWhenItIsFullOrItsOldestRequestHasWaitedTheWindow) {
  const std::vector<double> arrivals = {0, 0.1, 0.2, 5};
  const Batching batching{.most = 3, .window_seconds = 1};
  EXPECT_DOUBLE_EQ(batch_start(batching, arrivals, 0, 0), 0.2);
  EXPECT_EQ(batch_size(batching, arrivals, 0, 0.2), 3u);
  EXPECT_DOUBLE_EQ(batch_start(batching, arrivals, 1, 0), 1.1);  // two only within its window
  EXPECT_EQ(batch_size(batching, arrivals, 1, 1.1), 2u);
  EXPECT_DOUBLE_EQ(batch_start(batching, arrivals, 3, 0), 6);  // nobody knows that no more will come
  EXPECT_DOUBLE_EQ(batch_start(batching, arrivals, 0, 7), 7);  // the server was busy
  EXPECT_EQ(batch_size(batching, arrivals, 0, 7), 3u);
}

TEST(Queue, EveryRequestIsServedOnceInOrderAndNoneWaitsForMoreThanTheWindow) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const RandomCase c = random_case(seed);
    size_t next = 0;
    double taken_before = 0;
    for (const ServedBatch& b : simulate_queue(c.arrivals, c.batching, c.servers, growing_times())) {
      ASSERT_EQ(b.first, next);
      ASSERT_GE(b.samples, 1u);
      ASSERT_LE(b.samples, static_cast<size_t>(c.batching.most));
      next += b.samples;
      ASSERT_GE(b.taken, taken_before);
      ASSERT_GE(b.taken, c.arrivals[next - 1]) << "a request was taken before it came";
      const bool more_there = next < c.arrivals.size() && c.arrivals[next] <= b.taken;
      ASSERT_TRUE(!more_there || b.samples == static_cast<size_t>(c.batching.most));
      taken_before = b.taken;
    }
    ASSERT_EQ(next, c.arrivals.size());
  }
}

TEST(Queue, IsWhatAServerComesToThatKnowsNoFuture) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const RandomCase c = random_case(seed);
    const auto count = static_cast<size_t>(c.servers.count);
    const auto watched = watched_queue(c.arrivals, c.batching, count, growing_times());
    const auto simulated =
        simulate_queue(c.arrivals, c.batching, {.count = c.servers.count}, growing_times());
    ASSERT_EQ(simulated.size(), watched.size());
    for (size_t i = 0; i < watched.size(); ++i) {
      ASSERT_EQ(simulated[i].first, watched[i].first);
      ASSERT_EQ(simulated[i].samples, watched[i].samples);
      ASSERT_NEAR(simulated[i].taken, watched[i].taken, 1e-9);
      ASSERT_NEAR(simulated[i].done, watched[i].done, 1e-9);
    }
  }
}

TEST(Queue, OneByOneWaitsAsLongAsTheFormulaSays) {
  constexpr double kService = 0.01;
  for (const double load : {0.3, 0.6, 0.8}) {
    const auto arrivals = poisson_arrivals(load / kService, 200'000, 7);
    double waiting = 0;
    for (const ServedBatch& b : simulate_queue(arrivals, {}, {}, constant_times(kService)))
      waiting += b.taken - arrivals[b.first];
    const double expected = waiting_of_md1(load / kService, kService);
    EXPECT_NEAR(waiting / 200'000 / expected, 1, 0.05) << "at a load of " << load;
  }
  EXPECT_TRUE(std::isinf(waiting_of_md1(101, kService)));
}

TEST(Queue, LoadingAheadServesAsFastAsTheSlowerStage) {
  ServiceTimes times;
  times.add(1, {.loading = 1, .forward = 1});
  const std::vector<double> arrivals(4, 0.0);
  std::vector<double> alternating, ahead;
  for (const ServedBatch& b : simulate_queue(arrivals, {}, {}, times)) alternating.push_back(b.done);
  for (const ServedBatch& b : simulate_queue(arrivals, {}, {.load_ahead = true}, times))
    ahead.push_back(b.done);
  EXPECT_EQ(alternating, (std::vector<double>{2, 4, 6, 8}));
  EXPECT_EQ(ahead, (std::vector<double>{2, 3, 4, 5}));
  EXPECT_DOUBLE_EQ(capacity_of({}, {}, times), 0.5);
  EXPECT_DOUBLE_EQ(capacity_of({}, {.count = 3, .load_ahead = true}, times), 3);
}

TEST(Queue, TimesBetweenMeasuredBatchesLieOnALine) {
  const ServiceTimes times = growing_times();
  EXPECT_DOUBLE_EQ(times.at(1).all(), 0.3);
  EXPECT_DOUBLE_EQ(times.at(8).all(), 1.2);
  EXPECT_NEAR(times.at(2).all(), 0.3 + 0.9 / 7, 1e-12);
  EXPECT_DOUBLE_EQ(times.at(16).all(), 2.4);
}

TEST(Arrivals, OfAnotherRateHaveTheSameGapsScaled) {
  const auto slow = poisson_arrivals(10, 50'000, 3), fast = poisson_arrivals(40, 50'000, 3);
  EXPECT_NEAR(rate_of(slow) / 10, 1, 0.02);
  EXPECT_TRUE(std::ranges::is_sorted(slow));
  for (size_t i = 0; i < slow.size(); i += 1000) EXPECT_NEAR(fast[i] * 4, slow[i], 1e-6);
  EXPECT_NE(poisson_arrivals(10, 10, 4), poisson_arrivals(10, 10, 3));
  double square = 0;  // of an exponential gap the mean square is twice the squared mean
  for (size_t i = 1; i < slow.size(); ++i) square += std::pow(slow[i] - slow[i - 1], 2);
  EXPECT_NEAR(square / 50'000 * 100, 2, 0.1);
}

TEST(Arrivals, OfAFileAreRefusedByLine) {
  const test::TemporaryFolder folder;
  std::string good = "\xef\xbb\xbf# seconds\n5\n\n5.5 # a comment\n";
  for (int i = 6; i < 14; ++i) good += cat(i, "\r\n");
  const auto arrivals = read_arrivals(folder.write("good.txt", good));
  ASSERT_EQ(arrivals.size(), 10u);
  EXPECT_DOUBLE_EQ(arrivals[0], 0);
  EXPECT_DOUBLE_EQ(arrivals[1], 0.5);
  EXPECT_DOUBLE_EQ(rate_of(arrivals), 9.0 / 8);
  const auto refused = [&](const std::string& content) {
    const auto path = folder.write("bad.txt", content);
    return std::string(test::expect_error(ExitCode::kBadData, [&] { read_arrivals(path); }).what());
  };
  EXPECT_TRUE(test::holds(refused("1\n2\nthree\n"), "bad.txt:3"));
  EXPECT_TRUE(test::holds(refused("1\n0.5\n"), "before the 1 above it"));
  EXPECT_TRUE(test::holds(refused("-1\n"), "bad.txt:1"));
  EXPECT_TRUE(test::holds(refused("1\n2\n3\n"), "3 arrivals"));
  EXPECT_TRUE(test::holds(refused("1\n1\n1\n1\n1\n1\n1\n1\n1\n1\n"), "at one time"));
  test::expect_error(ExitCode::kMissingFile, [&] { read_arrivals(folder / "none.txt"); });
}

TEST(RateSearch, ComesWithinFivePercentOfTheLargestThatHolds) {
  for (const double edge : {0.013, 7.7, 140.0, 2500.0}) {
    for (const double start : {edge / 5, edge, 3 * edge}) {
      std::vector<TriedRate> tried;
      while (const auto next = next_rate(tried, start)) {
        ASSERT_LT(tried.size(), 20u);
        tried.push_back({*next, *next <= edge});
      }
      ASSERT_TRUE(held_rate(tried));
      EXPECT_LE(*held_rate(tried), edge);
      EXPECT_GE(*held_rate(tried), edge / 1.06);
    }
  }
}

TEST(RateSearch, WhatHoldsBeyondARateThatDoesNotIsLuck) {
  const std::vector<TriedRate> tried = {{100, true}, {200, false}, {400, true}};
  EXPECT_EQ(held_rate(tried), 100);
  EXPECT_EQ(next_rate(tried, 1), 150);
  EXPECT_FALSE(held_rate({{100, false}}));
  EXPECT_EQ(next_rate({{100, false}}, 70), 50);
  EXPECT_EQ(next_rate({{100, true}}, 70), 125);
  EXPECT_EQ(next_rate({{100, true}}, 700), 700);  // nothing near the capacity was tried
  EXPECT_EQ(three_digits(123456), 123000);
}

// Servers in real time: what holds however late the machine is.
TEST(RequestQueue, TwoServersTakeEveryRequestOnceAndNoneBeforeItComes) {
  const auto arrivals = poisson_arrivals(1000, 100, 1);
  RequestQueue queue(arrivals, {.most = 4, .window_seconds = 0.002}, 2, /*patience_seconds=*/1e6);
  const auto work = [&queue] {
    queue.start();
    while (auto batch = queue.take()) {
      batch->done = queue.now();
      queue.keep(*batch);
    }
  };
  { const std::jthread one(work), two(work); }
  auto served = queue.served();
  std::ranges::sort(served, {}, &ServedBatch::first);
  size_t next = 0;
  for (const ServedBatch& b : served) {
    EXPECT_EQ(b.first, next);
    EXPECT_LE(b.samples, 4u);
    next += b.samples;
    EXPECT_GE(b.taken, arrivals[next - 1]);
    EXPECT_GE(b.done, b.taken);
  }
  EXPECT_EQ(next, arrivals.size());
}

TEST(RequestQueue, AServerThatWaitsGoesHomeWhenTheServiceIsAbandoned) {
  RequestQueue queue({0, 1e6}, {}, 1);
  queue.start();
  EXPECT_TRUE(queue.take());
  {
    const std::jthread other([&queue] { queue.abandon(); });
    EXPECT_FALSE(queue.take());  // of a request that comes in days
  }
  RequestQueue alone({0}, {}, 2);  // its second server never comes
  const std::jthread other([&alone] { alone.abandon(); });
  alone.start();
  EXPECT_FALSE(alone.take());
}

}  // namespace
}  // namespace autotrain
