#include "device/nvml.h"

#include <dlfcn.h>

#include <type_traits>

namespace autotrain {

const Nvml* Nvml::get() {
  static const Nvml library;
  return library.ready_ ? &library : nullptr;
}

std::optional<nvmlDevice_t> Nvml::device(const std::string& bus_id) const {
  nvmlDevice_t handle{};
  const bool known = !bus_id.empty() && device_by_bus_(bus_id.c_str(), &handle) == NVML_SUCCESS;
  return known ? std::optional(handle) : std::nullopt;
}

Nvml::Nvml() {
  void* const library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
  };
  find(init_, "nvmlInit_v2");
  find(device_by_bus_, "nvmlDeviceGetHandleByPciBusId_v2");
  find(utilization, "nvmlDeviceGetUtilizationRates");
  find(memory, "nvmlDeviceGetMemoryInfo");
  find(power, "nvmlDeviceGetPowerUsage");
  find(temperature, "nvmlDeviceGetTemperature");
  find(clock, "nvmlDeviceGetClockInfo");
  find(throttle, "nvmlDeviceGetCurrentClocksEventReasons");
  find(pcie, "nvmlDeviceGetPcieThroughput");
  find(processes, "nvmlDeviceGetComputeRunningProcesses_v3");
  ready_ = init_ != nullptr && device_by_bus_ != nullptr && init_() == NVML_SUCCESS;
}

}  // namespace autotrain
