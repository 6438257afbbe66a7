#pragma once

#include <cstdint>

namespace autotrain {

/// Which update a task is asked to act in.
struct UpdateInfo {
  int64_t update = 0;   ///< its number in the run, from 1; that of one that is skipped comes again
  int64_t samples = 0;  ///< of the stream that were consumed before it, over all ranks
  double epoch = 0;     ///< the same in epochs
  bool trial = false;   ///< made to measure memory and time: nothing of it stays
};

}  // namespace autotrain
