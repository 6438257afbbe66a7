#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace autotrain {

/// What the processes on one GPU hold of its memory, in bytes.
struct GpuShares {
  int64_t own_bytes = 0;     ///< of this process; 0: it is not among them
  int64_t other_count = 0;   ///< processes beside it
  int64_t others_bytes = 0;  ///< that they hold together, as far as the driver says
};

/// The processes on one GPU, as the driver counts them.
class GpuProcesses {
 public:
  virtual ~GpuProcesses() = default;

  /// Nothing: the driver does not say.
  virtual std::optional<GpuShares> shares() const = 0;

  /// What this process holds; nothing where the driver does not count it, as in a container that hides the
  /// numbers of processes.
  std::optional<int64_t> own_bytes() const {
    const std::optional<GpuShares> all = shares();
    return all && all->own_bytes > 0 ? std::optional(all->own_bytes) : std::nullopt;
  }
};

/// Asks NVML, which is loaded when it is first asked for; null where there is none or it does not know this
/// GPU. @param bus_id as Device::bus_id has it.
std::unique_ptr<GpuProcesses> gpu_processes(const std::string& bus_id);

}  // namespace autotrain
