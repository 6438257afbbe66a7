#pragma once

#include <cstdint>

namespace autotrain {

/// A data set implements this, too, that can make the last samples of a run more simply than those before.
class Closing {
 public:
  virtual ~Closing() = default;

  /// Simple samples from this position of the run's stream on. To be called before any is asked for.
  virtual void close_from(int64_t position) = 0;
};

}  // namespace autotrain
