#pragma once

#include <cstdint>
#include <string>

namespace autotrain {

/// Says which of the processes of a run this one is.
struct Place {
  int64_t rank = 0;
  int64_t world = 1;  ///< how many there are
  std::string host = {};
  int64_t local_rank = 0;   ///< among the ranks of this host
  int64_t local_world = 1;  ///< how many ranks there are on it
};

}  // namespace autotrain
