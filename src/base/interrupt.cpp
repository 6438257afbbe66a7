#include "base/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>

#include "autotrain/error.h"

namespace autotrain {
namespace {

std::atomic<int> requested{0};
std::atomic<int> insisted{0};  // by SIGINT or SIGTERM
std::atomic<int> checkpoint{0};
std::atomic<int> by_scope{0};  // a StopSignalScope's signal made the request
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may only touch such");

void on_stop_signal(int) {
  requested = static_cast<int>(Interrupt::kStop);
}

void on_insistent_signal(int signal) {
  on_stop_signal(signal);
  if (insisted.exchange(1) != 0) ::_exit(static_cast<int>(ExitCode::kInterrupted));
}

void on_scoped_signal(int) {
  by_scope = 1;
  on_stop_signal(0);
}

void on_checkpoint_signal(int) {
  checkpoint = 1;
}

struct sigaction handled_by(void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  return action;
}

void handle(int signal, void (*handler)(int)) {
  const struct sigaction action = handled_by(handler);
  ::sigaction(signal, &action, nullptr);
}

// Whether the handlers of the whole process are in force.
bool are_installed() {
  struct sigaction now = {};
  return ::sigaction(SIGTERM, nullptr, &now) == 0 && now.sa_handler == on_insistent_signal;
}

bool is_ignored(int signal) {
  struct sigaction now = {};
  return ::sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

}  // namespace

void install_signal_handlers() {
  for (const int signal : {SIGINT, SIGTERM}) handle(signal, on_insistent_signal);
  for (const int signal : {SIGHUP, SIGXCPU}) {
    if (!is_ignored(signal)) handle(signal, on_stop_signal);
  }
  handle(SIGUSR1, on_checkpoint_signal);
  // A file that grows beyond `ulimit -f` is a failed write, which has its message and its way out.
  ::signal(SIGXFSZ, SIG_IGN);
}

StopSignalScope::StopSignalScope(int signal) : signal_(signal) {
  if (signal_ == 0) return;
  const struct sigaction action = handled_by(on_scoped_signal);
  ::sigaction(signal_, &action, &before_);
}

StopSignalScope::~StopSignalScope() {
  if (signal_ == 0) return;
  ::sigaction(signal_, &before_, nullptr);
  if (before_.sa_handler == on_scoped_signal || are_installed()) return;
  if (by_scope.exchange(0) != 0) requested = 0;
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
  insisted = 0;
  checkpoint = 0;
  by_scope = 0;
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
