#pragma once

#include <memory>
#include <string>

#include "device/device.h"

namespace autotrain {

/// CUDA devices that this process sees; 0 in a build without CUDA.
int64_t cuda_device_count();

/// The calling thread computes on a stream of the device's own from then on, and its current device stays as
/// it is. How libraries choose kernels is left as the process has it.
/// @throws Error(kBadRecipe) when there is no such device, or in a build without CUDA; Error(kUsage) where
/// its memory comes from an allocator that cannot be held to a budget.
std::unique_ptr<Device> open_cuda_device(const DeviceOptions& options, int64_t index);

}  // namespace autotrain
