#pragma once

#include <memory>

#include "device/device.h"

namespace autotrain {

std::unique_ptr<Device> open_cpu_device(const DeviceOptions& options);

/// Refuses to start `threads` threads where memory for their stacks cannot be had: LibTorch does not notice
/// that a thread was refused, and waits for it for ever.
/// @throws Error(kDoesNotFit) when RLIMIT_DATA or RLIMIT_AS leave less than the stacks and a reserve take.
void require_room_for_threads(int64_t threads);

/// What `budget` comes to on this machine.
/// @param available_bytes  what the machine could give now, above what the process uses.
/// @param available_name   what bounds it: "RLIMIT_DATA (ulimit -d)".
ResolvedBudget resolve_budget(const Budget& budget, int64_t available_bytes,
                              const std::string& available_name);

}  // namespace autotrain
