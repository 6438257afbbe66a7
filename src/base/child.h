#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <string>

namespace autotrain {

/// Work in a process of its own, so that it can be killed, and so that its crash is a result.
///
/// The process is a copy of this one (fork), which has none of its threads. Those of OpenMP (5.0 or newer)
/// end before and come back when they are needed; this process must not have used a GPU or autograd's threads
/// before. It ends with the thread that started it, holds none of this process's file locks, and gets no
/// signals from the keyboard.
class Child {
 public:
  /// @param work its result is the exit code; an Error's code when it throws one.
  /// @param log  takes what the process prints; empty: it prints where this process does.
  /// @throws Error(kUsage) where this process ignores SIGCHLD, Error(kInputOutput).
  explicit Child(const std::function<int()>& work, const std::filesystem::path& log = {});

  /// Kills and reaps it if it still runs.
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// How it ended: its exit code, or minus the signal that killed it.
  int wait();

  /// The same, and forwards a stop that this process is asked for: once, for a second signal would not let it
  /// save its state.
  /// @param tick called several times a second.
  int wait_forwarding_stop(const std::function<void()>& tick = [] {});

  /// Whether it ended within so long.
  bool ended_within(double seconds);

  void send(int signal) const;

  /// Whether a signal has stopped it, as SIGSTOP does: it runs no further until another one lets it.
  bool stopped() const;

 private:
  void reap(int options);

  pid_t pid_;
  bool ended_ = false;
  int result_ = 0;
};

/// "signal 9 (Killed)".
std::string named_signal(int signal);

/// @param result as Child::wait gives it.
/// @returns "was killed by signal 9 (Killed)" or "ended with code 3".
std::string ended_how(int result);

}  // namespace autotrain
