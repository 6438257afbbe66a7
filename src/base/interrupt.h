#pragma once

namespace autotrain {

/// What the outside asked a running job to do. The handlers only set a flag; every loop polls it.
enum class Interrupt { kNone, kStop };

/// SIGINT and SIGTERM ask for a stop from now on; a second one ends the process at once. SIGUSR1 asks for a
/// checkpoint.
void install_signal_handlers();

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
