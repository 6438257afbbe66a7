#pragma once

#include <c10/core/Device.h>

#include <memory>
#include <string>

#include "device/gpu_memory.h"

namespace autotrain {

/// The memory of a CUDA device: LibTorch's allocator, the runtime, and NVML where it knows this process.
/// @param bus_id as Device::bus_id has it.
std::unique_ptr<GpuMemory> cuda_memory(c10::DeviceIndex index, const std::string& bus_id);

}  // namespace autotrain
