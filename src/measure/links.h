#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "comm/ranks.h"
#include "device/device.h"

namespace autotrain {

/// What passes between ranks, and what each of them computes, measured by all at the same time.
struct LinkFigures {
  double meeting_seconds = 0;  ///< median of an exchange of short notes

  /// The exact sum of so many bytes of gradients.
  struct Sum {
    int64_t bytes = 0;
    double seconds = 0;  ///< median
    double rate = 0;     ///< bytes a second that a rank sends: 2·(ranks − 1) ÷ ranks of the gradients
  };
  std::vector<Sum> sums = {};  ///< smallest first

  struct Rank {
    std::string host;
    double flops = 0;  ///< floating-point operations per second of its matrix products in float32
  };
  std::vector<Rank> ranks = {};  ///< in their order
};

/// Takes some seconds. Every rank calls it, and all get the same figures. @param ranks connected.
LinkFigures measure_links(Ranks& ranks, const Device& device);

/// The rank that computes clearly less than the median of all; -1 when there is none.
int64_t straggler_of(const std::vector<LinkFigures::Rank>& ranks);

/// The figures as docs/formats.md describes them.
nlohmann::ordered_json to_json(const LinkFigures& links);

}  // namespace autotrain
