#pragma once

#include <signal.h>

namespace autotrain {

/// What the outside asked a running job to do. The handlers only set a flag; every loop polls it.
enum class Interrupt { kNone, kStop };

/// SIGINT and SIGTERM ask for a stop from now on; a second one of them ends the process at once. So do
/// SIGHUP, of a terminal that is gone, and SIGXCPU, of a limit of processor time, unless they are ignored, as
/// `nohup` has it; the system sends these again and again, and they never end it at once. SIGUSR1 asks for a
/// checkpoint.
void install_signal_handlers();

/// A signal that asks for a stop while the scope lives, and never ends the process at once, however often it
/// comes. Scopes nest. Where the handlers above are not in force, in a program that is a run's host, the
/// request ends with the last scope: the run has stopped, and the next one is to begin.
class StopSignalScope {
 public:
  /// @param signal 0: none.
  explicit StopSignalScope(int signal);
  ~StopSignalScope();
  StopSignalScope(const StopSignalScope&) = delete;
  StopSignalScope& operator=(const StopSignalScope&) = delete;

 private:
  int signal_;
  struct sigaction before_ {};
};

/// Whether a checkpoint was asked for since the last call that said so.
bool take_checkpoint_request();

/// Whether one was asked for, without taking note.
bool checkpoint_requested();

/// Asks for a checkpoint, as SIGUSR1 does.
void request_checkpoint();

Interrupt pending_interrupt();

/// @throws Error(kInterrupted) when a stop was asked for. @param what was stopped, and what that means.
void stop_if_interrupted(const char* where, const char* what);

/// Forgets a pending request; for programs that go on after a stopped run.
void clear_interrupt();

/// Interrupts the job, as a signal does.
void request_interrupt(Interrupt request);

}  // namespace autotrain
