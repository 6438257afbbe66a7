// Stands in for gpu_telemetry.cpp where there is no CUDA, or no header of NVML.
#include "device/telemetry.h"

namespace autotrain {

std::unique_ptr<TelemetrySource> gpu_telemetry(const std::string&) {
  return nullptr;
}

}  // namespace autotrain
