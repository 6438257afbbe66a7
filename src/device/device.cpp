#include "device/device.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>

#include <algorithm>

#include "autotrain/error.h"
#include "base/text.h"
#include "base/units.h"
#include "device/cpu_device.h"
#include "device/cuda_device.h"

namespace autotrain {
namespace {

// LibTorch would also fill every fresh tensor with NaN in deterministic mode, which costs a pass
// over memory and changes no result of a correct program.
void ask_for_determinism(bool deterministic) {
  at::globalContext().setDeterministicAlgorithms(deterministic, /*warn_only=*/true);
  at::globalContext().setDeterministicFillUninitializedMemory(false);
}

}  // namespace

std::unique_ptr<Device> open_device(const DeviceOptions& options) {
  const std::string& name = options.device;
  const bool on_cpu = name == "cpu" || (name == "auto" && cuda_device_count() == 0);
  ask_for_determinism(options.deterministic.value_or(on_cpu));
  const int64_t threads = options.threads > 0 ? options.threads : usable_cores();
  require_room_for_threads(threads);
  at::set_num_threads(static_cast<int>(threads));
  if (on_cpu) return open_cpu_device(options);
  if (name == "auto" || name == "cuda") {
    // A launcher may show each process its own GPU alone, which is the first one then.
    return open_cuda_device(options, options.local_rank % std::max<int64_t>(1, cuda_device_count()));
  }
  int64_t index = 0;
  if (name.starts_with("cuda:") && parse_integer(std::string_view(name).substr(5), index)) {
    return open_cuda_device(options, index);
  }
  throw Error(ExitCode::kBadRecipe, "execution.device", quote(name) + " is not a device",
              "use auto, cpu, cuda or cuda:N");
}

}  // namespace autotrain
