#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "autotrain/plan.h"
#include "lr/rate_curve.h"
#include "plan/workbench.h"

namespace autotrain {

/// How far a range test is.
struct RangeProgress {
  int64_t stretch = 0;  ///< from 0
  double lr = 0;
  double loss = 0;
  bool held = false;  ///< a rate is held; else it grows from update to update
};

struct RangeTestOptions {
  double from = 1e-6, to = 10;  ///< learning rates at the plan's effective batch
  double factor = 1.1;          ///< from one rate of the grid to the next
  int64_t stretches = 3;        ///< of the stream
  int64_t held_updates = 32;    ///< at a rate that is held; at least 3

  int64_t position = 0;  ///< in the stream, of the first sample
  int64_t window = 0;    ///< number of the window that begins there

  /// After every update.
  std::function<void(const RangeProgress&)> on_update = [](const RangeProgress&) {};
};

/// A range test (Smith 2017, arXiv:1506.01186), once on each stretch: updates at the plan's effective batch,
/// as the run makes them, whose learning rate grows by a constant factor from each to the next, until the
/// loss diverges. What such an update does shows late: what grows from nearly nothing is seen when it has
/// grown. So the divergence edge is then found by halving, between the rates of the grid, by training for
/// some updates at one rate from the same weights. Warm-up and schedule are not applied; clipping is, if the
/// recipe has it.
///
/// Leaves no trace: parameters, state of optimizer and scaler, weight averages, buffers and generators are
/// put back bit for bit, on every way out. Their copies take memory: see `restored_bytes`.
/// @param plan of the workbench; one rank.
/// @throws Error(kInterrupted) after a signal, Error(kDoesNotFit) when memory runs out; whatever data and
/// task throw.
std::vector<RateStretch> range_test(Workbench& bench, const BatchPlan& plan, const RangeTestOptions& options);

/// Memory of the copies on the workbench's device; 0 on a GPU, whose copies are in main memory.
int64_t restored_bytes(const Workbench& bench);

}  // namespace autotrain
