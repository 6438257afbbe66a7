#include "step/autocast.h"

#include <ATen/autocast_mode.h>

#include "step/precision.h"

namespace autotrain {

AutocastScope::AutocastScope(torch::DeviceType device, Precision precision)
    : device_(device),
      enabled_before_(at::autocast::is_autocast_enabled(device)),
      dtype_before_(at::autocast::get_autocast_dtype(device)) {
  at::autocast::set_autocast_enabled(device_, is_half(precision));
  if (is_half(precision)) at::autocast::set_autocast_dtype(device_, product_type(precision));
  at::autocast::increment_nesting();
}

AutocastScope::~AutocastScope() {
  at::autocast::decrement_nesting();
  at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_, enabled_before_);
  at::autocast::set_autocast_dtype(device_, dtype_before_);
}

}  // namespace autotrain
