// Stands in for cuda_device.cpp where LibTorch was built without CUDA.
#include "autotrain/error.h"
#include "device/cuda_device.h"
#include "device/gpu_facts.h"
#include "device/profiler_range.h"

namespace autotrain {

int64_t cuda_device_count() {
  return 0;
}

std::unique_ptr<Device> open_cuda_device(const DeviceOptions&, int64_t) {
  throw Error(ExitCode::kBadRecipe, "execution.device", "this build has no CUDA",
              "set execution.device to cpu, or build against a LibTorch with CUDA");
}

void ask_cuda(GpuFacts& facts) {
  facts.in_build = false;
}

void push_profiler_range(std::string_view) {}
void pop_profiler_range() {}

}  // namespace autotrain
