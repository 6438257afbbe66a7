// Stands in for what asks NVML where there is no CUDA, or no header of NVML.
#include "device/gpu_processes.h"
#include "device/telemetry.h"

namespace autotrain {

std::unique_ptr<TelemetrySource> gpu_telemetry(const std::string&) {
  return nullptr;
}

std::unique_ptr<GpuProcesses> gpu_processes(const std::string&) {
  return nullptr;
}

}  // namespace autotrain
