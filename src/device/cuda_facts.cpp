#include <cuda_runtime_api.h>

#include "base/text.h"
#include "device/gpu_facts.h"

namespace autotrain {

// Not by LibTorch's count, which is asked once, warns by itself and does not say why there are none. None of
// these calls makes a context.
void ask_cuda(GpuFacts& facts) {
  int devices = 0, driver = 0, runtime = 0;
  const cudaError_t error = cudaGetDeviceCount(&devices);
  if (error != cudaSuccess) {
    devices = 0;
    cudaGetLastError();  // which the next call of LibTorch's would find
    facts.error = static_cast<int>(error);
    facts.error_text = cudaGetErrorString(error);
  }
  if (cudaDriverGetVersion(&driver) == cudaSuccess) facts.driver = driver;
  if (cudaRuntimeGetVersion(&runtime) == cudaSuccess) facts.runtime = runtime;
  facts.devices = devices;
  for (int device = 0; device < devices; ++device) {
    int major = 0, minor = 0;
    if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess) continue;
    cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
    facts.capabilities.push_back(cat(major, '.', minor));
  }
}

}  // namespace autotrain
