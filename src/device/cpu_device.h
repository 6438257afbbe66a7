#pragma once

#include <memory>

#include "device/device.h"

namespace autotrain {

std::unique_ptr<Device> open_cpu_device(const DeviceOptions& options);

/// What `budget` comes to on this machine.
/// @param available_bytes  what the machine could give now, above what the process uses.
/// @param available_name   what bounds it: "RLIMIT_DATA (ulimit -d)".
ResolvedBudget resolve_budget(const Budget& budget, int64_t available_bytes,
                              const std::string& available_name);

}  // namespace autotrain
