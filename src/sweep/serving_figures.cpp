#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/json.h"
#include "base/text.h"
#include "measure/timing.h"
#include "sweep/serving.h"

namespace autotrain {
namespace {

using Json = nlohmann::ordered_json;

// Sums over the requests that count.
struct RequestSums {
  std::vector<double> arrivals = {}, latencies = {};
  double waiting = 0, loading = 0, copying = 0, forward = 0, output = 0;

  void add(double arrival, const ServedBatch& b) {
    arrivals.push_back(arrival);
    latencies.push_back(b.done - arrival);
    waiting += b.taken - arrival + b.begun - b.loaded;
    loading += b.loaded - b.taken;
    copying += b.copied - b.begun;
    forward += b.computed - b.copied;
    output += b.done - b.computed;
  }

  double mean(double sum) const { return sum / static_cast<double>(latencies.size()); }
};

double mean_of(const std::vector<double>& values, size_t begin, size_t end) {
  if (begin >= end) return 0;
  const auto at = [&](size_t i) { return values.begin() + static_cast<std::ptrdiff_t>(i); };
  return std::accumulate(at(begin), at(end), 0.0) / static_cast<double>(end - begin);
}

// Of a load ρ above 1 the times of requests grow by ρ − 1 seconds in every second of arrivals, wherever they
// began. Below it they wander, by less the more requests there are.
bool grows_to_the_end(const std::vector<double>& arrivals, const std::vector<double>& latencies) {
  constexpr double kGrows = 1.5;  // times at the end ÷ those before the middle
  constexpr double kSlope = 0.05, kLeastSlope = 0.02;
  const size_t count = latencies.size(), quarter = count / 4;
  const auto growth = [&](const std::vector<double>& values) {
    return mean_of(values, count - quarter, count) - mean_of(values, quarter, 2 * quarter);
  };
  const double seconds = growth(arrivals);
  if (quarter == 0 || seconds <= 0) return false;
  const double slope = growth(latencies) / seconds;
  const bool multiplies =
      mean_of(latencies, count - quarter, count) > kGrows * mean_of(latencies, quarter, 2 * quarter);
  return (slope > kSlope && multiplies) ||
         slope > std::max(kLeastSlope, 2 / std::sqrt(static_cast<double>(count)));
}

// What one batch could still take is no queue that grows.
int64_t largest_of(const std::vector<ServedBatch>& served) {
  size_t most = 0;
  for (const ServedBatch& batch : served) most = std::max(most, batch.samples);
  return static_cast<int64_t>(most);
}

int64_t backlog_of(const std::vector<double>& arrivals, const std::vector<ServedBatch>& served) {
  size_t taken = 0;
  for (const ServedBatch& batch : served) {
    if (batch.taken <= arrivals.back()) taken += batch.samples;
  }
  return static_cast<int64_t>(arrivals.size() - taken);
}

double mean_of_field(const std::vector<StudyResult>& rounds, const char* name) {
  double sum = 0;
  for (const StudyResult& round : rounds) sum += round.value.at(name).get<double>();
  return sum / static_cast<double>(rounds.size());
}

void take_times(const std::vector<StudyResult>& rounds, double percentile, std::optional<double> latency_ms,
                ServingPoint& point) {
  std::vector<double> all;
  for (const StudyResult& round : rounds) {
    const auto some = round.value.at("latencies_seconds").get<std::vector<double>>();
    all.insert(all.end(), some.begin(), some.end());
  }
  std::ranges::sort(all);
  point.p50 = quantile(all, 0.5);
  point.p95 = quantile(all, 0.95);
  point.p99 = quantile(all, 0.99);
  point.asked = quantile(all, percentile / 100);
  point.waiting = mean_of_field(rounds, "waiting_seconds");
  point.loading = mean_of_field(rounds, "loading_seconds");
  point.copying = mean_of_field(rounds, "copying_seconds");
  point.forward = mean_of_field(rounds, "forward_seconds");
  point.output = mean_of_field(rounds, "output_seconds");
  if (!latency_ms) return;
  const auto in_time = std::ranges::upper_bound(all, *latency_ms / 1e3) - all.begin();
  point.late = 1 - static_cast<double>(in_time) / static_cast<double>(all.size());
}

}  // namespace

Json round_of(const std::vector<double>& arrivals, std::vector<ServedBatch> served, size_t warm_up) {
  std::ranges::sort(served, {}, &ServedBatch::first);
  RequestSums sums;
  size_t answered = 0;
  double last = arrivals[warm_up];
  for (const ServedBatch& batch : served) {
    for (size_t i = batch.first; i < batch.first + batch.samples; ++i) {
      if (i >= warm_up) sums.add(arrivals[i], batch);
    }
    answered += batch.samples;
    last = std::max(last, batch.done);
  }
  const double span = arrivals.back() - arrivals[warm_up];
  const double offered = span > 0 ? static_cast<double>(arrivals.size() - warm_up - 1) / span : 0;
  const auto counted = static_cast<double>(sums.latencies.size());
  const double seconds = last - arrivals[warm_up], served_rate = seconds > 0 ? counted / seconds : 0;
  const bool given_up = answered < arrivals.size();
  const int64_t backlog = backlog_of(arrivals, served);
  // Where requests take longer than all of them took to come, they were one burst: of a rate that tells
  // nothing.
  const bool is_burst = mean_of(sums.latencies, 0, sums.latencies.size()) > span;
  const bool grows = backlog > largest_of(served) && grows_to_the_end(sums.arrivals, sums.latencies);
  return {
      {"requests", sums.latencies.size()},
      {"warm_up", warm_up},
      {"given_up", arrivals.size() - answered},
      {"batches", served.size()},
      {"mean_batch", static_cast<double>(answered) / static_cast<double>(std::max<size_t>(1, served.size()))},
      {"offered_per_second", offered},
      {"served_per_second", served_rate},
      {"unstable", given_up || is_burst || grows},
      {"backlog", backlog},
      {"waiting_seconds", sums.mean(sums.waiting)},
      {"loading_seconds", sums.mean(sums.loading)},
      {"copying_seconds", sums.mean(sums.copying)},
      {"forward_seconds", sums.mean(sums.forward)},
      {"output_seconds", sums.mean(sums.output)},
      {"latencies_seconds", sums.latencies}};
}

ServingPoint summarise_serving(double rate, const std::vector<StudyResult>& rounds, double percentile,
                               std::optional<double> latency_ms) {
  ServingPoint point{.rate = rate};
  for (const StudyResult& round : rounds) {
    if (!round.failed()) continue;
    point.failure = first_line(round.failure);
    point.code = round.code;
    return point;
  }
  for (const StudyResult& round : rounds) {
    const Json& v = round.value;
    point.requests += v.at("requests").get<int64_t>();
    point.unstable = point.unstable || v.at("unstable").get<bool>();
    point.backlog = std::max(point.backlog, v.at("backlog").get<int64_t>());
    point.peak_bytes = std::max(point.peak_bytes, v.at("peak_bytes").get<int64_t>());
  }
  point.offered = mean_of_field(rounds, "offered_per_second");
  point.served = mean_of_field(rounds, "served_per_second");
  point.mean_batch = mean_of_field(rounds, "mean_batch");
  if (!point.unstable) take_times(rounds, percentile, latency_ms, point);
  return point;
}

void add_expected(const Serving& serving, const ServiceTimes& times, size_t warm_up, bool poisson,
                  const std::vector<std::vector<double>>& arrivals, ServingPoint& point) {
  if (times.empty() || !point.failure.empty()) return;
  std::vector<double> all;
  bool grows = false;
  for (const std::vector<double>& some : arrivals) {
    const Json round =
        round_of(some, simulate_queue(some, serving.batching(), serving.who(), times), warm_up);
    grows = grows || round.at("unstable").get<bool>();
    const auto latencies = round.at("latencies_seconds").get<std::vector<double>>();
    all.insert(all.end(), latencies.begin(), latencies.end());
  }
  std::ranges::sort(all);
  if (!grows) {
    point.simulated_p50 = quantile(all, 0.5);
    point.simulated_p99 = quantile(all, 0.99);
  }
  if (poisson && serving.most == 1 && serving.servers == 1 && !serving.load_ahead) {
    const double waiting = waiting_of_md1(point.rate, times.at(1).all());
    if (waiting < std::numeric_limits<double>::infinity()) point.md1_waiting = waiting;
  }
}

}  // namespace autotrain
