#include "device/device_error.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "autotrain/log.h"
#include "base/text.h"
#include "device/failure.h"
#include "device/gpu_facts.h"

namespace autotrain {
namespace {

// ------------------------------------------------------------------ words

DeviceLost device_lost(const std::exception& error) {
  if (const auto* const known = dynamic_cast<const DeviceLost*>(&error)) return *known;
  if (is_device_assert(error)) {
    return {
        "device",
        cat("a kernel met an index out of range (", first_line(error),
            "): most often a target that is none of the classes, or a token beyond the vocabulary"),
        "look for targets below 0 or beyond the last class (loss.ignore_index excepted): a short run with "
        "--set execution.device=cpu names the first"};
  }
  return {
      "device", "the device was lost: " + first_line(error),
      "nvidia-smi, and dmesg in its lines with Xid, say what befell the GPU; one that is lost again needs a "
      "reset, or another driver"};
}

// What to use in the place of the commonest operators, by how their names begin.
struct Substitute {
  std::string_view of, instead;
};
constexpr std::array<Substitute, 8> kSubstitutes = {{
    {"adaptive_avg_pool", "pool to 1 × 1, or with a fixed kernel (avg_pool2d)"},
    {"adaptive_max_pool", "pool with a fixed kernel (max_pool2d)"},
    {"upsample_", "interpolate to the nearest"},
    {"reflection_pad", "pad with zeros"},
    {"replication_pad", "pad with zeros"},
    {"cumsum", "multiply by a triangular matrix of ones"},
    {"put_", "write with index_put_"},
    {"max_pool3d", "pool with strides in a convolution"},
}};

std::string instead_of(const std::string& name) {
  for (const Substitute& each : kSubstitutes) {
    if (name.starts_with(each.of)) return cat(each.instead, ", or ");
  }
  return "";
}

Error not_deterministic(const std::string& name) {
  if (name == "cuBLAS") {
    return Error(ExitCode::kBadRecipe, "execution.deterministic",
                 "with the CUBLAS_WORKSPACE_CONFIG of this environment cuBLAS adds in any order",
                 "unset CUBLAS_WORKSPACE_CONFIG, or set it to :4096:8");
  }
  return Error(ExitCode::kBadRecipe, "execution.deterministic",
               cat("the operator ", name, " has no deterministic implementation on this device"),
               instead_of(name) +
                   "set execution.deterministic: false, with which bits may differ from one run to the next");
}

Error no_kernels() {
  const std::string capabilities = join(gpu_facts().capabilities, ", ");
  return Error(ExitCode::kBadRecipe, "execution.device",
               cat("this LibTorch has no kernels for the GPU",
                   capabilities.empty() ? "" : cat(", of compute capability ", capabilities)),
               "install a LibTorch that was built for it, or set execution.device: cpu");
}

Error device_taken() {
  return Error(
      ExitCode::kBadRecipe, "execution.device",
      "the GPU takes no process more: another one has it for itself, or its compute mode admits none",
      "nvidia-smi -q -d COMPUTE,PIDS shows both: wait for the other process, have the mode set to "
      "Default, or use another GPU");
}

// ------------------------------------------------------------------ scopes

struct LivingScopes {
  std::mutex mutex;
  std::vector<LostDeviceScope*> scopes;  // the innermost last
  std::terminate_handler before = nullptr;
};

// Outlives every scope, and the objects that are destroyed at the program's end.
LivingScopes& living() {
  static auto* const all = new LivingScopes;
  return *all;
}

LostDeviceScope* take_innermost() {
  LivingScopes& all = living();
  const std::lock_guard lock(all.mutex);
  if (all.scopes.empty()) return nullptr;
  LostDeviceScope* const scope = all.scopes.back();
  all.scopes.pop_back();
  return scope;
}

// One thread leaves. Where another one meets the loss meanwhile, it is not to end the process before.
void wait_for_who_leaves() {
  static std::atomic<std::thread::id> leaves{};
  std::thread::id nobody{};
  if (leaves.compare_exchange_strong(nobody, std::this_thread::get_id())) return;
  while (nobody != std::this_thread::get_id()) ::pause();
}

[[noreturn]] void at_the_end() {
  if (const std::exception_ptr pending = std::current_exception()) {
    try {
      std::rethrow_exception(pending);
    } catch (const std::exception& error) {
      if (is_device_lost(error) || dynamic_cast<const DeviceLost*>(&error) != nullptr) {
        wait_for_who_leaves();
        leave_lost_device(device_lost(error));
      }
    } catch (...) {
      // None of ours.
    }
  }
  living().before();
  std::abort();
}

}  // namespace

void throw_device_error(const std::exception& error) {
  if (is_device_lost(error)) throw device_lost(error);
  if (const std::string name = nondeterministic_operator(error); !name.empty()) throw not_deterministic(name);
  if (lacks_kernels(error)) throw no_kernels();
  if (is_device_taken(error)) throw device_taken();
}

LostDeviceScope::LostDeviceScope(Leave leave) : leave_(std::move(leave)) {
  LivingScopes& all = living();
  const std::lock_guard lock(all.mutex);
  if (all.before == nullptr) all.before = std::set_terminate(at_the_end);
  all.scopes.push_back(this);
}

LostDeviceScope::~LostDeviceScope() {
  LivingScopes& all = living();
  const std::lock_guard lock(all.mutex);
  std::erase(all.scopes, this);
}

DeviceLost leave_lost_device(const DeviceLost& error) {
  DeviceLost told = error;
  while (LostDeviceScope* const scope = take_innermost()) {
    try {
      told = scope->leave_(told);
    } catch (const std::exception& problem) {
      log::error("device", first_line(problem));  // the next one has its own to do
    }
  }
  return told;
}

}  // namespace autotrain
