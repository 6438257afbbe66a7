#include "device/gpu_processes.h"

#include <unistd.h>

#include <vector>

#include "device/nvml.h"

namespace autotrain {
namespace {

class NvmlProcesses final : public GpuProcesses {
 public:
  NvmlProcesses(const Nvml& nvml, nvmlDevice_t device) : nvml_(nvml), device_(device) {}

  std::optional<GpuShares> shares() const override {
    const auto running = list();
    if (!running) return std::nullopt;
    GpuShares shares;
    for (const nvmlProcessInfo_t& process : *running) {
      const bool told = process.usedGpuMemory != static_cast<unsigned long long>(NVML_VALUE_NOT_AVAILABLE);
      const int64_t bytes = told ? static_cast<int64_t>(process.usedGpuMemory) : 0;
      if (process.pid == static_cast<unsigned int>(::getpid())) {
        shares.own_bytes += bytes;
      } else {
        ++shares.other_count;
        shares.others_bytes += bytes;
      }
    }
    return shares;
  }

 private:
  // Nothing: the driver does not say, or processes start faster than it can list them.
  std::optional<std::vector<nvmlProcessInfo_t>> list() const {
    std::vector<nvmlProcessInfo_t> running(64);
    for (int attempt = 0; attempt < 3; ++attempt) {
      auto count = static_cast<unsigned int>(running.size());
      const nvmlReturn_t answer = nvml_.processes(device_, &count, running.data());
      if (answer == NVML_SUCCESS) {
        running.resize(count);
        return running;
      }
      if (answer != NVML_ERROR_INSUFFICIENT_SIZE) return std::nullopt;
      running.resize(2 * size_t{count});  // it says how many there are
    }
    return std::nullopt;
  }

  const Nvml& nvml_;
  const nvmlDevice_t device_;
};

}  // namespace

std::unique_ptr<GpuProcesses> gpu_processes(const std::string& bus_id) {
  const Nvml* const nvml = Nvml::get();
  if (nvml == nullptr || nvml->processes == nullptr) return nullptr;
  const auto device = nvml->device(bus_id);
  return device ? std::make_unique<NvmlProcesses>(*nvml, *device) : nullptr;
}

}  // namespace autotrain
