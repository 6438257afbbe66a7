#include "sweep/serving_sweep.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "base/text.h"
#include "base/units.h"
#include "report/column.h"
#include "sweep/rate_search.h"
#include "sweep/serving_work.h"

namespace autotrain {
namespace {

constexpr double kFirstTry = 0.7;  // of the capacity

class ServingSweeping {
 public:
  explicit ServingSweeping(const ServingRequest& request) : request_(request), work_(request) {}

  ServingSweep run() {
    execute(runs_of_times(), /*to_the_end=*/false);
    for (size_t v = 0; v < variants().size(); ++v) {
      for (size_t i = 0; i < work_.lines().size(); ++i) rates_[{v, i}] = first_rates(v, work_.lines()[i]);
    }
    const bool searches = bound() && !work_.is_trace() && request_.tries > 0;
    execute(runs_of_rates(), !searches);
    for (int64_t tried = 0; searches && tried < request_.tries; ++tried) {
      const std::vector<StudyRun> runs = next_tries();
      if (runs.empty()) break;
      execute(runs, /*to_the_end=*/false);
    }
    return collected();
  }

 private:
  using LineOf = std::pair<size_t, size_t>;  // variant, line

  const std::vector<ServingVariant>& variants() const { return work_.sweep().variants; }
  const std::optional<double>& bound() const { return work_.sweep().latency_ms; }

  StudyRun run_of(const ServingMeasurement& m) {
    measurements_[m.name()] = m;
    return work_.run_of(m);
  }

  std::vector<StudyRun> runs_of_times() {
    std::vector<StudyRun> runs;
    for (size_t v = 0; v < variants().size(); ++v) {
      for (const int64_t servers : work_.server_counts()) runs.push_back(run_of(work_.times_of(v, servers)));
    }
    return runs;
  }

  // Nothing where times are needed and could not be measured.
  std::vector<double> first_rates(size_t variant, const Serving& line) const {
    if (!work_.rates().empty()) return work_.rates();
    const auto capacity = capacity_of_line(variant, line);
    return capacity ? rates_below_and_above(*capacity) : std::vector<double>{};
  }

  // Round after round, every other one from the last down.
  std::vector<StudyRun> runs_of_rates() {
    std::vector<StudyRun> runs;
    for (int64_t round = 0; round < work_.rounds(); ++round) {
      std::vector<StudyRun> of_round;
      for (const auto& [line, rates] : rates_) {
        for (const double rate : rates)
          of_round.push_back(run_of({line.first, work_.lines()[line.second], rate, round}));
      }
      if (round % 2 == 1) std::ranges::reverse(of_round);
      std::ranges::move(of_round, std::back_inserter(runs));
    }
    return runs;
  }

  // One rate for each line whose largest that holds is not known yet.
  std::vector<StudyRun> next_tries() {
    std::vector<StudyRun> runs;
    for (auto& [line, rates] : rates_) {
      const Serving& serving = work_.lines()[line.second];
      const auto capacity = capacity_of_line(line.first, serving);
      if (!capacity || has_failed(line.first, serving, rates)) continue;
      const auto next = next_rate(tried_rates(line.first, serving, rates), kFirstTry * *capacity);
      if (!next) continue;
      rates.push_back(*next);
      for (int64_t round = 0; round < work_.rounds(); ++round)
        runs.push_back(run_of({line.first, serving, *next, round}));
    }
    return runs;
  }

  bool has_failed(size_t variant, const Serving& line, const std::vector<double>& rates) const {
    return std::ranges::any_of(rates, [&](double rate) {
      return failed_.contains(ServingMeasurement{variant, line, rate}.point());
    });
  }

  std::vector<TriedRate> tried_rates(size_t variant, const Serving& line,
                                     const std::vector<double>& rates) const {
    std::vector<TriedRate> tried;
    for (const double rate : rates)
      tried.push_back(
          {rate, points_.at(ServingMeasurement{variant, line, rate}.point()).holds(*bound() / 1e3)});
    return tried;
  }

  void execute(const std::vector<StudyRun>& runs, bool to_the_end) {
    run_study(runs, {.kind = "sweep under load",
                     .folder = request_.folder,
                     .more_may_follow = !to_the_end,
                     .wanted = [&](const StudyRun& run) { return !failed_.contains(run.variant); },
                     .on_progress = request_.on_progress,
                     .on_result = [&](const StudyResult& result) { note(result); }});
  }

  void note(const StudyResult& result) {
    const bool is_new = results_.insert_or_assign(result.name, result).second;
    const ServingMeasurement& m = measurements_.at(result.name);
    if (result.failed()) failed_.insert(m.point());
    if (!m.is_times()) points_.insert_or_assign(m.point(), point_of(m));
    if (!is_new || result.kept) return;
    request_.on_result(label_of(work_.sweep(), variants()[m.variant]) + m.words() +
                       words_of_result(m, result));
    request_.on_sweep(collected());
  }

  std::string words_of_result(const ServingMeasurement& m, const StudyResult& result) const {
    if (result.failed()) return ": " + first_line(result.failure);
    if (m.is_times()) return ": measured";
    const ServingPoint p = summarised(m.rate, {result});
    if (p.unstable)
      return cat(": ", format_rate(p.served), " served a second, and the queue grew to the end");
    return cat(": p50 ", milliseconds(*p.p50), " ms, p99 ", milliseconds(*p.p99), " ms");
  }

  const StudyResult* result_of(const ServingMeasurement& m) const {
    const auto found = results_.find(m.name());
    return found == results_.end() ? nullptr : &found->second;
  }

  std::vector<StudyResult> rounds_of(size_t variant, const Serving& line, double rate) const {
    std::vector<StudyResult> rounds;
    for (int64_t round = 0; round < work_.rounds(); ++round) {
      if (const StudyResult* const result = result_of({variant, line, rate, round}))
        rounds.push_back(*result);
    }
    return rounds;
  }

  // Precondition: a round of it is finished.
  ServingPoint summarised(double rate, const std::vector<StudyResult>& rounds) const {
    return summarise_serving(rate, rounds, work_.sweep().percentile, bound());
  }

  // All finished rounds of a measurement's point, and what is expected of them.
  ServingPoint point_of(const ServingMeasurement& m) const {
    const std::vector<StudyResult> rounds = rounds_of(m.variant, m.serving, m.rate);
    ServingPoint point = summarised(m.rate, rounds);
    const StudyResult* const times = result_of(work_.times_of(m.variant, m.serving.servers));
    if (times == nullptr || times->failed()) return point;
    std::vector<std::vector<double>> arrivals;
    for (int64_t round = 0; round < std::ssize(rounds); ++round)
      arrivals.push_back(work_.arrivals_of(m.variant, m.rate, round));
    add_expected(m.serving, service_times_from(times->value.at("times")),
                 work_.requests_of(m.variant, m.rate).warm_up, !work_.is_trace(), arrivals, point);
    return point;
  }

  std::optional<double> capacity_of_line(size_t variant, const Serving& line) const {
    const StudyResult* const times = result_of(work_.times_of(variant, line.servers));
    if (times == nullptr || times->failed()) return std::nullopt;
    return capacity_of(line.batching(), line.who(), service_times_from(times->value.at("times")));
  }

  // With what is finished.
  ServingSweep collected() const {
    ServingSweep sweep = work_.sweep();
    for (size_t v = 0; v < variants().size(); ++v) take_times(v, sweep);
    for (const auto& [place, rates] : rates_) {
      const auto [v, i] = place;
      ServingLine& line = sweep.variants[v].lines.emplace_back();
      line.serving = work_.lines()[i];
      line.capacity = capacity_of_line(v, line.serving);
      for (const double rate : rates) add_point(v, rate, sweep, line);
      std::ranges::sort(line.points, {}, &ServingPoint::rate);
    }
    return sweep;
  }

  void take_times(size_t v, ServingSweep& sweep) const {
    ServingVariant& variant = sweep.variants[v];
    for (const int64_t servers : work_.server_counts()) {
      const StudyResult* const times = result_of(work_.times_of(v, servers));
      if (times == nullptr) {
        ++sweep.unfinished;
      } else if (times->failed()) {
        variant.failure = first_line(times->failure);
        variant.code = times->code;
      } else {
        variant.times[servers] = service_times_from(times->value.at("times"));
        variant.precision = times->value.at("precision");
        if (variant.machine.is_null()) variant.machine = times->value.at("machine");
      }
    }
  }

  void add_point(size_t v, double rate, ServingSweep& sweep, ServingLine& line) const {
    const std::string name = ServingMeasurement{v, line.serving, rate}.point();
    const int64_t finished = finished_rounds(v, line.serving, rate);
    if (!failed_.contains(name)) sweep.unfinished += work_.rounds() - finished;
    if (finished > 0) line.points.push_back(points_.at(name));
  }

  int64_t finished_rounds(size_t variant, const Serving& line, double rate) const {
    int64_t finished = 0;
    for (int64_t round = 0; round < work_.rounds(); ++round)
      finished += result_of({variant, line, rate, round}) != nullptr ? 1 : 0;
    return finished;
  }

  const ServingRequest& request_;
  const ServingWork work_;
  std::map<LineOf, std::vector<double>> rates_;
  std::map<std::string, StudyResult> results_;
  std::map<std::string, ServingPoint> points_;  // by ServingMeasurement::point, of the finished rounds
  std::map<std::string, ServingMeasurement> measurements_;  // by the names of their runs
  std::set<std::string> failed_;                            // by ServingMeasurement::point
};

}  // namespace

ServingSweep run_serving_sweep(const ServingRequest& request) {
  return ServingSweeping(request).run();
}

void check_serving_sweep(const ServingRequest& request) {
  const ServingWork checked(request);
}

}  // namespace autotrain
