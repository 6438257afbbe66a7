#include "trainer/call_scope.h"

#include <mutex>
#include <thread>

#include "autotrain/error.h"
#include "autotrain/log.h"

namespace autotrain {
namespace {

std::mutex mutex;
std::thread::id at_work;  // in `calls` calls, one within the other
int calls = 0;

void enter() {
  const std::lock_guard lock(mutex);
  if (calls > 0 && at_work != std::this_thread::get_id()) {
    throw Error(
        ExitCode::kUsage, "Trainer",
        "another run is at work in this process, in another thread: they would share LibTorch's random "
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

}  // namespace

CallScope::CallScope(std::optional<ProcessSettings>& mine, bool gpus)
    : mine_(mine), gpus_(gpus), callers_(entered(gpus)) {
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
