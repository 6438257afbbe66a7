#include "trainer/call_scope.h"

#include <ATen/Context.h>

#include <mutex>
#include <thread>

#include "autotrain/error.h"
#include "autotrain/log.h"

namespace autotrain {
namespace {

std::mutex mutex;
std::thread::id at_work;  // in `calls` calls, one within the other
int calls = 0;
bool alone = false;  // the call under way is a CallAlone

void enter() {
  const std::lock_guard lock(mutex);
  if (calls > 0 && (alone || at_work != std::this_thread::get_id())) {
    throw Error(ExitCode::kUsage, "Trainer",
                "another run or sweep is at work in this process, in another thread or around this call: "
                "they would share LibTorch's random "
                "numbers, threads and allocator",
                "call it when the other one has returned, or give each run a process of its own");
  }
  at_work = std::this_thread::get_id();
  ++calls;
}

void leave() {
  const std::lock_guard lock(mutex);
  --calls;
}

// What is kept when nobody else may be in a call.
ProcessSettings entered(bool gpus) {
  enter();
  try {
    return ProcessSettings::now(gpus);
  } catch (...) {
    leave();
    throw;
  }
}

at::Generator global_generator() {
  return at::globalContext().defaultGenerator(torch::kCPU);
}

}  // namespace

ProgramsGenerator::ProgramsGenerator() {
  at::Generator generator = global_generator();
  std::lock_guard lock(generator.mutex());
  seed_ = generator.current_seed();
  state_ = generator.get_state();
}

ProgramsGenerator::~ProgramsGenerator() {
  at::Generator generator = global_generator();
  {
    std::lock_guard lock(generator.mutex());
    if (generator.current_seed() == seed_) return;
    generator.set_state(state_);
  }
  log::warn(
      "trainer",
      "LibTorch's global generator was given another seed while a run was at work, and is put back: the run "
      "draws from a generator of its own, autotrain::cpu_generator()");
}

CallAlone::CallAlone(const char* what) {
  const std::lock_guard lock(mutex);
  if (calls > 0) {
    throw Error(ExitCode::kUsage, what,
                "is called while a run or a sweep is at work in this process: it would change its allocator, "
                "threads and budget",
                "call it before or after the run, or in a process of its own");
  }
  at_work = std::this_thread::get_id();
  calls = 1;
  alone = true;
}

CallAlone::~CallAlone() {
  const std::lock_guard lock(mutex);
  calls = 0;
  alone = false;
}

CallScope::CallScope(std::optional<ProcessSettings>& mine, const at::Generator& own, bool gpus)
    : mine_(mine), gpus_(gpus), callers_(entered(gpus)), generator_(own) {
  if (mine_) mine_->put_in_force();
}

CallScope::~CallScope() {
  try {
    mine_ = ProcessSettings::now(gpus_);
    callers_.put_in_force();
  } catch (const std::exception& error) {  // of a device that is lost
    log::error("trainer", error.what());
  }
  leave();
}

}  // namespace autotrain
