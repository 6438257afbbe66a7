#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"

namespace autotrain {

/// Readings by name. Units are in the names; docs/formats.md lists them.
using TelemetryValues = std::map<std::string, double>;

/// Something that can be asked how it is doing.
class TelemetrySource {
 public:
  virtual ~TelemetrySource() = default;

  /// Adds its readings; rates are over the time since the last call. A reading that cannot be had is left
  /// out.
  virtual void read(TelemetryValues& values) = 0;
};

/// This process and the machine's processors, as Linux tells.
/// @param root where /proc is looked for. @param clock gives seconds.
std::unique_ptr<TelemetrySource> process_telemetry(const std::filesystem::path& root = "/",
                                                   std::function<double()> clock = steady_seconds);

/// A GPU through NVML, which is loaded when it is first asked for; null where there is none or it does not
/// know this GPU. @param bus_id as Device::bus_id has it.
std::unique_ptr<TelemetrySource> gpu_telemetry(const std::string& bus_id);

}  // namespace autotrain
