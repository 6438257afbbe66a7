#include "base/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>

#include "autotrain/error.h"

namespace autotrain {
namespace {

std::atomic<int> requested{0};
std::atomic<int> checkpoint{0};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may only touch such");

void on_signal(int) {
  if (requested.exchange(static_cast<int>(Interrupt::kStop)) != 0) {
    ::_exit(static_cast<int>(ExitCode::kInterrupted));
  }
}

void on_checkpoint_signal(int) {
  checkpoint = 1;
}

}  // namespace

void install_signal_handlers() {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  action.sa_handler = on_checkpoint_signal;
  ::sigaction(SIGUSR1, &action, nullptr);
  // A file that grows beyond `ulimit -f` is a failed write, which has its message and its way out.
  ::signal(SIGXFSZ, SIG_IGN);
}

Interrupt pending_interrupt() {
  return static_cast<Interrupt>(requested.load());
}

void stop_if_interrupted(const char* where, const char* what) {
  if (pending_interrupt() != Interrupt::kStop) return;
  throw Error(ExitCode::kInterrupted, where, what, "run the same command again");
}

void clear_interrupt() {
  requested = 0;
  checkpoint = 0;
}

bool take_checkpoint_request() {
  return checkpoint.exchange(0) != 0;
}

bool checkpoint_requested() {
  return checkpoint != 0;
}

void request_checkpoint() {
  checkpoint = 1;
}

void request_interrupt(Interrupt request) {
  requested = static_cast<int>(request);
}

}  // namespace autotrain
