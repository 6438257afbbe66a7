#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "study/study.h"
#include "sweep/serving.h"

namespace autotrain {

struct ServingRequest {
  std::filesystem::path config;
  std::vector<std::string> overrides;
  std::filesystem::path folder;
  std::string rates = "auto";        ///< samples a second, "50,100"; auto: shares of what a line can serve
  std::filesystem::path trace = {};  ///< arrivals from a file in the place of rates; empty: none
  std::string windows_ms = "0";      ///< milliseconds, "0,2"
  std::string servers = "1";         ///< counts, "1,2"
  bool load_ahead = false;           ///< each line also with the next batch loaded while one is computed
  bool processes = false;            ///< several servers also as processes
  std::optional<int64_t> requests = {};  ///< that count at each rate; nothing: as come in sweep.max_seconds
  double percentile = 99;                ///< of requests that sweep.latency_ms is for
  bool bound_options = false;            ///< whether options were given that sweep.latency_ms gives a meaning
  int64_t tries = 6;  ///< rates that are tried beyond the others in search of the largest that holds
  std::function<void(const StudyProgress&)> on_progress = [](const StudyProgress&) {};

  /// After each measurement of this call: what it was and what came out, in a line.
  std::function<void(const std::string& line)> on_result = [](const std::string&) {};

  /// Likewise: what is known so far.
  std::function<void(const ServingSweep&)> on_sweep = [](const ServingSweep&) {};
};

/// Measures, for each variant, how long batches take, then every way of serving at every rate, each round of
/// each in a process of its own, rounds interleaved; where there is a bound, then the largest rate that holds
/// it. What is finished is kept: the same call goes on where one was killed.
/// @throws Error as loading the recipe and `run_study` do.
ServingSweep run_serving_sweep(const ServingRequest& request);

/// What `run_serving_sweep` refuses before it measures anything.
void check_serving_sweep(const ServingRequest& request);

}  // namespace autotrain
