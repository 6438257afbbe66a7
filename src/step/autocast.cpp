#include "step/autocast.h"

#include <ATen/autocast_mode.h>

#include "autotrain/error.h"

namespace autotrain {

AutocastScope::AutocastScope(torch::DeviceType device, Precision precision)
    : device_(device),
      enabled_before_(at::autocast::is_autocast_enabled(device)),
      dtype_before_(at::autocast::get_autocast_dtype(device)) {
  check_invariant(precision != Precision::kAuto, "the precision is resolved before the first step");
  at::autocast::set_autocast_enabled(device_, precision != Precision::kFp32);
  if (precision == Precision::kBf16) at::autocast::set_autocast_dtype(device_, torch::kBFloat16);
  if (precision == Precision::kFp16) at::autocast::set_autocast_dtype(device_, torch::kFloat16);
  at::autocast::increment_nesting();
}

AutocastScope::~AutocastScope() {
  at::autocast::decrement_nesting();
  at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_, enabled_before_);
  at::autocast::set_autocast_dtype(device_, dtype_before_);
}

}  // namespace autotrain
