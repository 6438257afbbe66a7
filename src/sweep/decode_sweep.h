#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "study/study.h"
#include "sweep/decode.h"

namespace autotrain {

struct DecodeSweepRequest {
  std::filesystem::path config;
  std::vector<std::string> overrides;
  std::filesystem::path folder;
  std::string contexts = {};             ///< as sweep.batches has sizes; "": that of the recipe's samples
  std::optional<int64_t> requests = {};  ///< also fill the slots of the largest batch with so many
  std::function<void(const StudyProgress&)> on_progress = [](const StudyProgress&) {};

  /// After each measurement of this call: what it was and what came out, in a line.
  std::function<void(const std::string& line)> on_result = [](const std::string&) {};

  /// Likewise: what is known so far.
  std::function<void(const DecodeSweep&)> on_sweep = [](const DecodeSweep&) {};
};

/// Measures every batch at every context for each variant, each round of each in a process of its own, rounds
/// interleaved. What is finished is kept: the same call goes on where one was killed.
/// @throws Error as loading the recipe and `run_study` do.
DecodeSweep run_decode_sweep(const DecodeSweepRequest& request);

/// What `run_decode_sweep` refuses before it measures anything.
void check_decode_sweep(const DecodeSweepRequest& request);

}  // namespace autotrain
