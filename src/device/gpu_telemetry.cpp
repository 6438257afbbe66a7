#include <dlfcn.h>
#include <nvml.h>
#include <unistd.h>

#include <array>

#include "device/telemetry.h"

namespace autotrain {
namespace {

// The functions of NVML that are used, found in the driver's library when there is one: a program that was
// linked against it would not start on a machine without a driver.
class Nvml {
 public:
  static const Nvml* get() {
    static const Nvml library;
    return library.ready_ ? &library : nullptr;
  }

  decltype(&nvmlInit_v2) init = nullptr;
  decltype(&nvmlDeviceGetHandleByPciBusId_v2) device_by_bus = nullptr;
  decltype(&nvmlDeviceGetUtilizationRates) utilization = nullptr;
  decltype(&nvmlDeviceGetMemoryInfo) memory = nullptr;
  decltype(&nvmlDeviceGetPowerUsage) power = nullptr;
  decltype(&nvmlDeviceGetTemperature) temperature = nullptr;
  decltype(&nvmlDeviceGetClockInfo) clock = nullptr;
  decltype(&nvmlDeviceGetCurrentClocksEventReasons) throttle = nullptr;
  decltype(&nvmlDeviceGetPcieThroughput) pcie = nullptr;
  decltype(&nvmlDeviceGetComputeRunningProcesses_v3) processes = nullptr;

 private:
  Nvml() {
    void* const library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return;
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
    };
    find(init, "nvmlInit_v2");
    find(device_by_bus, "nvmlDeviceGetHandleByPciBusId_v2");
    find(utilization, "nvmlDeviceGetUtilizationRates");
    find(memory, "nvmlDeviceGetMemoryInfo");
    find(power, "nvmlDeviceGetPowerUsage");
    find(temperature, "nvmlDeviceGetTemperature");
    find(clock, "nvmlDeviceGetClockInfo");
    find(throttle, "nvmlDeviceGetCurrentClocksEventReasons");
    find(pcie, "nvmlDeviceGetPcieThroughput");
    find(processes, "nvmlDeviceGetComputeRunningProcesses_v3");
    ready_ = init != nullptr && device_by_bus != nullptr && init() == NVML_SUCCESS;
  }

  bool ready_ = false;
};

class GpuTelemetry final : public TelemetrySource {
 public:
  GpuTelemetry(const Nvml& nvml, nvmlDevice_t device) : nvml_(nvml), device_(device) {}

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
    std::array<nvmlProcessInfo_t, 64> running{};
    auto count = static_cast<unsigned int>(running.size());
    if (!had(nvml_.processes, &count, running.data())) return;
    double others = 0, bytes = 0;
    for (unsigned int i = 0; i < count; ++i) {
      if (running[i].pid == static_cast<unsigned int>(::getpid())) continue;
      ++others;
      if (running[i].usedGpuMemory != static_cast<unsigned long long>(NVML_VALUE_NOT_AVAILABLE)) {
        bytes += static_cast<double>(running[i].usedGpuMemory);
      }
    }
    values["gpu_other_processes"] = others;
    values["gpu_others_bytes"] = bytes;
  }

  const Nvml& nvml_;
  nvmlDevice_t device_;
};

}  // namespace

std::unique_ptr<TelemetrySource> gpu_telemetry(const std::string& bus_id) {
  if (bus_id.empty()) return nullptr;
  const Nvml* const nvml = Nvml::get();
  nvmlDevice_t handle{};
  const bool known = nvml != nullptr && nvml->device_by_bus(bus_id.c_str(), &handle) == NVML_SUCCESS;
  return known ? std::make_unique<GpuTelemetry>(*nvml, handle) : nullptr;
}

}  // namespace autotrain
