#pragma once

#include <cstdint>

#include "device/device.h"

namespace autotrain {

/// How fast the device reads `working_set_bytes` over and over, each of LibTorch's threads its part of them:
/// from the cache that holds them, or from memory. The best of several passes, in bytes a second.
/// @param seconds after which no further pass begins, beyond the third.
double read_bytes_per_second(const Device& device, int64_t working_set_bytes, double seconds = 1);

}  // namespace autotrain
