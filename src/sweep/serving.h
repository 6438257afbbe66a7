#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "study/study.h"
#include "sweep/queue_model.h"

namespace autotrain {

/// One way of serving requests that arrive one by one.
struct Serving {
  int64_t most = 1;         ///< samples of a batch
  double window_ms = 0;     ///< that the oldest request waits at most for others to fill the batch
  int64_t servers = 1;      ///< that take batches from one queue, each with its share of the threads
  bool processes = false;   ///< servers are processes, each with a model of its own, else threads of one
  bool load_ahead = false;  ///< a server loads its next batch while it computes one

  Batching batching() const { return {.most = most, .window_seconds = window_ms / 1e3}; }
  Servers who() const { return {.count = servers, .load_ahead = load_ahead}; }
  bool operator==(const Serving&) const = default;
};

/// One rate of arrivals before one way of serving, all rounds together. Times are of requests, in seconds.
struct ServingPoint {
  double rate = 0;           ///< requests a second that were asked for
  std::string failure = {};  ///< why there are no figures; then the rest is empty
  int code = 0;              ///< exit code of what failed, or minus the signal that killed it

  int64_t requests = 0;   ///< that count, of all rounds
  double offered = 0;     ///< a second, as they came; of several rounds the mean, as all that follows
  double served = 0;      ///< a second, from the first that counts to the last output
  bool unstable = false;  ///< the queue grew to the end: no time of a request means anything
  int64_t backlog = 0;    ///< requests in the queue when the last one arrived; the most of any round

  /// From arrival to outputs; nothing of an unstable point, as all further times.
  std::optional<double> p50 = {}, p95 = {}, p99 = {};
  std::optional<double> asked = {};  ///< at ServingSweep::percentile

  /// Means, whose sum is the mean from arrival to outputs.
  std::optional<double> waiting = {}, loading = {}, copying = {}, forward = {}, output = {};
  std::optional<double> late = {};  ///< share later than the bound; nothing without one
  double mean_batch = 0;
  int64_t peak_bytes = 0;  ///< of the process, or of all of them, above what it had at its start

  /// What the same arrivals come to when each batch takes the time measured of its size; nothing where the
  /// queue grows, or the times are not known.
  std::optional<double> simulated_p50 = {}, simulated_p99 = {};
  std::optional<double> md1_waiting = {};  ///< of batches of one by one server, else nothing

  bool holds(double latency_seconds) const {
    return failure.empty() && !unstable && asked && *asked <= latency_seconds;
  }
};

/// A way of serving over rates.
struct ServingLine {
  Serving serving = {};
  std::optional<double> capacity = {};    ///< samples a second at most, by the times of batches
  std::vector<ServingPoint> points = {};  ///< ascending by rate
};

/// The recipe with one value of the varied key.
struct ServingVariant {
  std::string value = {};
  std::string failure = {};  ///< why the times of batches could not be measured
  int code = 0;              ///< exit code of that, or minus the signal that killed it
  std::string precision = {};
  nlohmann::ordered_json machine = nullptr;
  std::map<int64_t, ServiceTimes> times = {};  ///< by the number of servers that share the threads
  std::vector<ServingLine> lines = {};
};

struct ServingSweep {
  std::string name = {};  ///< of the recipe
  std::string key = {};   ///< that is varied; empty: none
  std::optional<double> latency_ms = {};
  double percentile = 99;  ///< of requests that the bound is for
  std::string trace = {};  ///< the file that arrivals come from; "": a Poisson process
  int64_t unfinished = 0;  ///< measurements that are still to be made
  std::vector<ServingVariant> variants = {};
};

/// What became of requests in one measurement, as it is kept: docs/formats.md has the fields.
/// @param served the batches, in any order; requests that are in none were given up.
/// @param warm_up the first requests, which do not count.
nlohmann::ordered_json round_of(const std::vector<double>& arrivals, std::vector<ServedBatch> served,
                                size_t warm_up);

/// The rounds of one point as one. A round that failed makes it a failed one.
/// @param latency_ms the bound, if there is one.
ServingPoint summarise_serving(double rate, const std::vector<StudyResult>& rounds, double percentile,
                               std::optional<double> latency_ms);

/// Puts what is expected beside what was measured.
/// @param arrivals of each round.
void add_expected(const Serving& serving, const ServiceTimes& times, size_t warm_up, bool poisson,
                  const std::vector<std::vector<double>>& arrivals, ServingPoint& point);

/// The largest rate of a line that holds the bound; null: none, or there is no bound.
const ServingPoint* held_point(const ServingSweep& sweep, const ServingLine& line);

/// "batches of at most 16, waiting 2 ms, 2 processes, loading ahead".
std::string words_of(const Serving& serving);

/// "execution.precision=bf16", or the recipe's name when nothing is varied.
std::string label_of(const ServingSweep& sweep, const ServingVariant& variant);

/// What to take, and what came out, in sentences.
std::vector<std::string> sentences_of(const ServingSweep& sweep, const ServingVariant& variant);

/// From rows {samples, loading_seconds, …}. @throws nlohmann::json::exception when they are none.
ServiceTimes service_times_from(const nlohmann::ordered_json& rows);

/// As docs/formats.md has them.
nlohmann::ordered_json to_json(const ServingSweep& sweep);
std::string to_csv(const ServingSweep& sweep);

/// From serving.json. @throws nlohmann::json::exception when it is none.
ServingSweep serving_from_json(const nlohmann::ordered_json& json);

}  // namespace autotrain
