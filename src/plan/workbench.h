#pragma once

#include "autotrain/data.h"
#include "autotrain/task.h"
#include "data/loader.h"
#include "device/device.h"
#include "optim/optimizer.h"
#include "optim/scaler.h"
#include "step/update_step.h"

namespace autotrain {

/// The parts of a run that a trial exercises: the real ones, not copies. All outlive the planning.
struct Workbench {
  Device& device;
  Task& task;
  Optimizer& optimizer;
  GradScaler& scaler;
  UpdateStep& step;
  const Dataset& train;
  const Dataset* validation = nullptr;
  Stream stream;
  Loader::Options loader;
  int64_t most_workers = 1;  ///< threads that may come to load: a trial has them all at work
};

}  // namespace autotrain
