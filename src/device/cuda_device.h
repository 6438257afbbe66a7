#pragma once

#include <memory>
#include <string>

#include "device/device.h"

namespace autotrain {

/// CUDA devices that this process sees; 0 in a build without CUDA.
int64_t cuda_device_count();

/// @throws Error(kBadRecipe) when there is no such device, or in a build without CUDA.
std::unique_ptr<Device> open_cuda_device(const DeviceOptions& options, int64_t index);

}  // namespace autotrain
