#include "device/process_settings.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <cstdlib>

namespace autotrain {
namespace {

// Each is set where it is not set by the caller, and read by a library when it first computes.
constexpr const char* kReadByLibraries[] = {"ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY",
                                            "CUBLAS_WORKSPACE_CONFIG", "TORCH_NCCL_ASYNC_ERROR_HANDLING"};

std::optional<std::string> value_of(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
}

c10::impl::VirtualGuardImpl gpus_here() {
  return c10::impl::VirtualGuardImpl(torch::kCUDA);
}

std::vector<at::Generator> generators_of_gpus() {
  std::vector<at::Generator> found;
  const auto devices = static_cast<c10::DeviceIndex>(at::detail::getCUDAHooks().deviceCount());
  for (c10::DeviceIndex i = 0; i < devices; ++i)
    found.push_back(at::globalContext().defaultGenerator({torch::kCUDA, i}));
  return found;
}

}  // namespace

ProcessSettings ProcessSettings::now(bool gpus) {
  const at::Context& context = at::globalContext();
  gpus = gpus && at::Context::hasCUDA();
  ProcessSettings settings;
  settings.threads_ = at::get_num_threads();
  settings.deterministic_ = context.deterministicAlgorithms();
  settings.warns_only_ = context.deterministicAlgorithmsWarnOnly();
  settings.fills_uninitialised_ = context.deterministicFillUninitializedMemory();
  settings.default_type_ = c10::typeMetaToScalarType(c10::get_default_dtype());
  if (gpus) {
    for (at::Generator& generator : generators_of_gpus()) {
      std::lock_guard lock(generator.mutex());
      settings.generators_.emplace_back(generator, generator.get_state());
    }
    settings.gpus_ = {.benchmark = context.benchmarkCuDNN(),
                      .deterministic = context.deterministicCuDNN(),
                      .tf32 = Tf32Settings::now(),
                      .current = gpus_here().getDevice()};
  }
  for (const char* const name : kReadByLibraries) settings.environment_.emplace_back(name, value_of(name));
  ::sigaction(SIGPIPE, nullptr, &settings.broken_pipe_);
  std::fegetenv(&settings.rounding_);
  return settings;
}

void ProcessSettings::put_in_force() const {
  at::Context& context = at::globalContext();
  for (const auto& [generator, state] : generators_) {
    at::Generator held = generator;
    std::lock_guard lock(held.mutex());
    held.set_state(state);
  }
  if (at::get_num_threads() != threads_) at::set_num_threads(threads_);
  context.setDeterministicAlgorithms(deterministic_, warns_only_);
  context.setDeterministicFillUninitializedMemory(fills_uninitialised_);
  c10::set_default_dtype(c10::scalarTypeToTypeMeta(default_type_));
  if (gpus_) {
    context.setBenchmarkCuDNN(gpus_->benchmark);
    context.setDeterministicCuDNN(gpus_->deterministic);
    gpus_->tf32.put_in_force();
    gpus_here().uncheckedSetDevice(gpus_->current);  // which starts no GPU that nobody has used
  }
  for (const auto& [name, value] : environment_) {
    if (value_of(name) == value) continue;
    value ? ::setenv(name, value->c_str(), /*overwrite=*/1) : ::unsetenv(name);
  }
  ::sigaction(SIGPIPE, &broken_pipe_, nullptr);
  std::fesetenv(&rounding_);
}

}  // namespace autotrain
