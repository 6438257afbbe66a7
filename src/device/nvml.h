#pragma once

#include <nvml.h>

#include <optional>
#include <string>

namespace autotrain {

/// The functions of NVML that are used, found in the driver's library when there is one: a program that was
/// linked against it would not start on a machine without a driver. One that this driver lacks is null.
class Nvml {
 public:
  /// The process's; null: there is no driver.
  static const Nvml* get();

  /// Nothing: NVML does not know this GPU. @param bus_id as Device::bus_id has it.
  std::optional<nvmlDevice_t> device(const std::string& bus_id) const;

  decltype(&nvmlDeviceGetUtilizationRates) utilization = nullptr;
  decltype(&nvmlDeviceGetMemoryInfo) memory = nullptr;
  decltype(&nvmlDeviceGetPowerUsage) power = nullptr;
  decltype(&nvmlDeviceGetTemperature) temperature = nullptr;
  decltype(&nvmlDeviceGetClockInfo) clock = nullptr;
  decltype(&nvmlDeviceGetCurrentClocksEventReasons) throttle = nullptr;
  decltype(&nvmlDeviceGetPcieThroughput) pcie = nullptr;
  decltype(&nvmlDeviceGetComputeRunningProcesses_v3) processes = nullptr;

 private:
  Nvml();

  decltype(&nvmlInit_v2) init_ = nullptr;
  decltype(&nvmlDeviceGetHandleByPciBusId_v2) device_by_bus_ = nullptr;
  bool ready_ = false;
};

}  // namespace autotrain
