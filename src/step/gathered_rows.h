#pragma once

#include <torch/types.h>

#include "comm/ranks.h"

namespace autotrain {

/// Rows of all ranks, one behind the other in the order of ranks.
struct GatheredRows {
  torch::Tensor all;  ///< [N, …], the same bits on every rank
  int64_t first = 0;  ///< where this rank's begin
};

/// Another rank stops before it has rows to give, and the window is dropped by all. No std::exception, which
/// the code of a task, through which this one passes, may take for one of its own.
struct StopElsewhere {};

/// How long this rank waits for the others in gatherings, until the scope ends. Of this thread.
class GatheringScope {
 public:
  /// @param patience seconds after which a rank that gives signs of life but does not come is given up.
  explicit GatheringScope(double patience);
  ~GatheringScope();
  GatheringScope(const GatheringScope&) = delete;
  GatheringScope& operator=(const GatheringScope&) = delete;

  /// How long this rank has waited for the others so far.
  double waited_seconds() const { return waited_; }

  void add_wait(double seconds) { waited_ += seconds; }

  double patience() const { return patience_; }

 private:
  const double patience_;
  double waited_ = 0;
  GatheringScope* const before_;
};

/// Gathers the rows of all ranks on each of them. Nobody sends before all have said that they have their
/// rows and the memory for everybody's, so a rank that failed leaves no other waiting.
/// @param own [n, …] float32 on `device`; undefined: this rank has none.
/// @throws FailureElsewhere or Error as Ranks::meet; StopElsewhere; Error(kBrokenContract) where rows differ
/// in shape.
GatheredRows gather_rows(Ranks& ranks, const torch::Tensor& own, torch::Device device);

/// Says, in the place of `gather_rows`, that this rank stops. @throws as Ranks::meet.
void stop_in_place_of_rows(Ranks& ranks, double patience);

}  // namespace autotrain
