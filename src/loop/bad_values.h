#pragma once

#include <set>
#include <string>

#include "loop/window_runner.h"

namespace autotrain {

/// Looks for what is not finite in the samples of windows whose loss was not: a fault of the data that no
/// learning rate mends.
class BadValues {
 public:
  /// The first sample of the window that holds such a value, in words: "the inputs of sample 150 (cats/7.png)
  /// hold nan". "" where there is none, where it was told before, and after many looks.
  std::string find(Workbench& bench, const QueuedUpdate& window);

 private:
  static constexpr int64_t kMostLooks = 100;
  int64_t looks_ = 0;
  std::set<std::string> told_;
};

/// The first sample of the window that holds such a value; "" where there is none.
std::string first_bad_value(Workbench& bench, const QueuedUpdate& window);

}  // namespace autotrain
