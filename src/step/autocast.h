#pragma once

#include <torch/types.h>

#include "autotrain/recipe.h"

namespace autotrain {

/// Mixed precision on one device type until the scope ends; does nothing for fp32.
///
/// The cast copies of weights are dropped at the end: without that, C++ code goes on multiplying with
/// weights from before the update.
class AutocastScope {
 public:
  /// @param precision kFp32, kBf16 or kFp16; kAuto must be resolved before.
  AutocastScope(torch::DeviceType device, Precision precision);
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  torch::DeviceType device_;
  bool enabled_before_;
  torch::ScalarType dtype_before_;
};

}  // namespace autotrain
