#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sweep/serving.h"

namespace autotrain {

/// Numbers from "0,2,5", each at least `least`, none twice. @throws Error(kUsage) naming the option.
std::vector<double> numbers_in(const std::string& text, const char* option, double least);

/// Every combination of batch, window and servers. A window means nothing to batches of one, nor processes to
/// one server: such combinations are there once.
struct ServingAxes {
  std::vector<int64_t> batches = {};
  std::vector<double> windows_ms = {};
  std::vector<int64_t> servers = {};
  bool processes = false;
  bool load_ahead = false;
};
std::vector<Serving> combinations_of(const ServingAxes& axes);

/// The rates that are measured where none are typed: shares of what a line can serve, one of them beyond it.
std::vector<double> rates_below_and_above(double capacity);

/// Requests of a measurement: those that count and, before them, those of the warm-up.
struct RequestCount {
  size_t counted = 0;
  size_t warm_up = 0;

  size_t all() const { return counted + warm_up; }
};

/// As many as come in `seconds`, but enough that a 99th percentile is one and no more than memory holds well.
RequestCount requests_at(double rate, double seconds, std::optional<int64_t> asked);

/// Of a trace, whose first tenth is the warm-up.
RequestCount requests_of_trace(size_t arrivals);

/// Of the files of a line's measurements: "batch-16-window-2-servers-2-processes-ahead".
std::string file_word(const Serving& serving);

}  // namespace autotrain
