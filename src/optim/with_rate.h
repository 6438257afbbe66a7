#pragma once

#include "optim/optimizer.h"

namespace autotrain {

/// Calls `kernel(rate)` with the number, or with the tensor that holds it.
template <class Kernel>
void with_rate(const Optimizer::Update& update, Kernel kernel) {
  if (update.lr_on_device.defined()) {
    kernel(update.lr_on_device);
  } else {
    kernel(update.lr);
  }
}

}  // namespace autotrain
