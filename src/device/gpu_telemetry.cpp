#include "device/gpu_processes.h"
#include "device/nvml.h"
#include "device/telemetry.h"

namespace autotrain {
namespace {

class GpuTelemetry final : public TelemetrySource {
 public:
  GpuTelemetry(const Nvml& nvml, nvmlDevice_t device, std::unique_ptr<GpuProcesses> processes)
      : nvml_(nvml), device_(device), processes_(std::move(processes)) {}

  void read(TelemetryValues& values) override {
    nvmlUtilization_t utilization{};
    if (had(nvml_.utilization, &utilization)) {
      values["gpu_fraction"] = utilization.gpu / 100.0;
      values["gpu_memory_traffic_fraction"] = utilization.memory / 100.0;
    }
    nvmlMemory_t memory{};
    if (had(nvml_.memory, &memory)) values["gpu_used_bytes"] = static_cast<double>(memory.used);
    unsigned int number = 0;
    if (had(nvml_.power, &number)) values["gpu_watts"] = number / 1000.0;
    if (had(nvml_.temperature, NVML_TEMPERATURE_GPU, &number)) values["gpu_celsius"] = number;
    if (had(nvml_.clock, NVML_CLOCK_SM, &number)) values["gpu_clock_hertz"] = number * 1e6;
    unsigned long long reasons = 0;
    if (had(nvml_.throttle, &reasons)) values["gpu_throttle_reasons"] = static_cast<double>(reasons);
    if (had(nvml_.pcie, NVML_PCIE_UTIL_RX_BYTES, &number))
      values["pcie_in_bytes_per_second"] = number * 1024.0;
    if (had(nvml_.pcie, NVML_PCIE_UTIL_TX_BYTES, &number))
      values["pcie_out_bytes_per_second"] = number * 1024.0;
    read_other_processes(values);
  }

 private:
  // Whether the driver knew the answer.
  template <class Function, class... Arguments>
  bool had(Function function, Arguments... arguments) const {
    return function != nullptr && function(device_, arguments...) == NVML_SUCCESS;
  }

  void read_other_processes(TelemetryValues& values) const {
    const auto shares = processes_ ? processes_->shares() : std::nullopt;
    if (!shares) return;
    values["gpu_other_processes"] = static_cast<double>(shares->other_count);
    values["gpu_others_bytes"] = static_cast<double>(shares->others_bytes);
  }

  const Nvml& nvml_;
  nvmlDevice_t device_;
  std::unique_ptr<GpuProcesses> processes_;
};

}  // namespace

std::unique_ptr<TelemetrySource> gpu_telemetry(const std::string& bus_id) {
  const Nvml* const nvml = Nvml::get();
  if (nvml == nullptr) return nullptr;
  const auto device = nvml->device(bus_id);
  return device ? std::make_unique<GpuTelemetry>(*nvml, *device, gpu_processes(bus_id)) : nullptr;
}

}  // namespace autotrain
