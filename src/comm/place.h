#pragma once

#include <cstdint>
#include <string>

namespace autotrain {

/// Which of the processes of a run this one is.
struct Place {
  int64_t rank = 0;
  int64_t world = 1;  ///< how many there are
  std::string host = {};
};

}  // namespace autotrain
