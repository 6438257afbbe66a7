#include "device/device.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdlib>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "base/text.h"
#include "base/units.h"
#include "device/cores.h"
#include "device/cpu_device.h"
#include "device/cuda_device.h"
#include "device/device_error.h"
#include "device/gpu_facts.h"

namespace autotrain {
namespace {

// Where it was asked for, an operator that has no kernel of the kind throws; and only then do attention's
// backward passes on a GPU add in one order. Where it is merely the default, that operator runs as it can.
// LibTorch would also fill every fresh tensor with NaN in deterministic mode, which costs a pass
// over memory and changes no result of a correct program.
void choose_kernels(const std::optional<bool>& asked, bool on_cpu) {
  const bool strict = asked.value_or(false);
  at::globalContext().setDeterministicAlgorithms(asked.value_or(on_cpu), /*warn_only=*/!strict);
  at::globalContext().setDeterministicFillUninitializedMemory(false);
  if (on_cpu) return;
  // cuBLAS repeats bit for bit only with a workspace of fixed size, which LibTorch reads when the process
  // first multiplies, in this run or in a later one.
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  at::globalContext().setDeterministicCuDNN(strict);
  // Benchmarking tries algorithms with large workspaces: memory would peak at random.
  at::globalContext().setBenchmarkCuDNN(false);
}

[[noreturn]] void fail_no_gpu(const std::string& asked, const GpuFault& fault) {
  throw Error(ExitCode::kBadRecipe, "execution.device", cat(asked, " cannot be had: ", fault.what),
              cat(fault.cure, "; or set execution.device: cpu"));
}

// A machine with a GPU that `auto` cannot use. A plan that is settled was made by a run that has said so.
void warn_of_idle_gpu(const GpuFacts& facts, const GpuFault& fault, const DeviceOptions& options) {
  if (!facts.in_machine || fault.meant || !facts.in_build || options.settled) return;
  log::warn("device", cat("there is a GPU, and the run is on the CPU: ", fault.what, "; ", fault.cure));
}

// "cuda:1"; nothing for a name that is none. A launcher may show each process its own GPU alone, which is the
// first one then.
std::optional<int64_t> cuda_index(const DeviceOptions& options, int64_t devices) {
  if (options.device == "auto" || options.device == "cuda") return options.local_rank % devices;
  int64_t index = 0;
  if (options.device.starts_with("cuda:") && parse_integer(std::string_view(options.device).substr(5), index))
    return index;
  return std::nullopt;
}

}  // namespace

std::unique_ptr<Device> open_device(const DeviceOptions& options) {
  const std::string& name = options.device;
  const GpuFacts facts = name == "cpu" ? GpuFacts() : gpu_facts();
  const std::optional<int64_t> index = cuda_index(options, std::max<int64_t>(1, facts.devices));
  if (name != "cpu" && !index) {
    throw Error(ExitCode::kBadRecipe, "execution.device", quote(name) + " is not a device",
                "use auto, cpu, cuda or cuda:N");
  }
  const std::optional<GpuFault> fault = name == "cpu" ? std::nullopt : gpu_fault(facts, *index);
  if (fault && name != "auto") fail_no_gpu(name, *fault);
  if (fault) warn_of_idle_gpu(facts, *fault, options);
  const bool on_cpu = name == "cpu" || fault.has_value();
  choose_kernels(options.deterministic, on_cpu);
  const int64_t threads = options.threads > 0 ? options.threads : usable_cores().count;
  require_room_for_threads(threads);
  at::set_num_threads(static_cast<int>(threads));
  if (on_cpu) return open_cpu_device(options);
  return naming_device_errors([&] {
    std::unique_ptr<Device> device = open_cuda_device(options, *index);
    device->use_from_this_thread();
    return device;
  });
}

}  // namespace autotrain
