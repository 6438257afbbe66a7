#include "base/child.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <thread>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "base/clock.h"
#include "base/descriptors.h"
#include "base/file_lock.h"
#include "base/files.h"
#include "base/heap_refused.h"
#include "base/interrupt.h"
#include "base/text.h"

namespace autotrain {
namespace {

int exit_code_of(const std::function<int()>& work) {
  try {
    return work();
  } catch (const Error& error) {
    log::error("run", error.what());
    return static_cast<int>(error.code());
  } catch (const std::bad_alloc&) {
    const Error error = heap_refused();
    log::error("run", error.what());
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    log::error("run", std::string("internal: ") + error.what());
    return static_cast<int>(ExitCode::kInternal);
  }
}

// Nobody is left to read the result of a process whose parent is gone. Signals from the keyboard are the
// parent's to pass on.
void depend_on(pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(static_cast<int>(ExitCode::kInterrupted));
  ::setpgid(0, 0);
}

// Printing to the file `log`; where it is negative, to where it printed before.
[[noreturn]] void become(const std::function<int()>& work, int log) {
  if (log >= 0) {
    ::dup2(log, STDOUT_FILENO);
    ::dup2(log, STDERR_FILENO);
  }
  const int code = exit_code_of(work);
  std::fflush(nullptr);
  ::_exit(code);  // what the parent has open, it will close itself
}

// A copy of this process has none of its threads, and OpenMP in it would wait for them for ever. Without
// them, both processes start their own when they compute.
void end_openmp_threads() {
  constexpr int kSoft = 1;  // omp_pause_soft, OpenMP 5.0
  const auto pause = reinterpret_cast<int (*)(int)>(::dlsym(RTLD_DEFAULT, "omp_pause_resource_all"));
  if (pause != nullptr) pause(kSoft);
}

int meaning(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

// A program whose parent ignored SIGCHLD ignores it too, and then the system forgets how its processes ended.
void check_that_ends_are_told() {
  struct sigaction action = {};
  ::sigaction(SIGCHLD, nullptr, &action);
  if (action.sa_handler != SIG_IGN && (action.sa_flags & SA_NOCLDWAIT) == 0) return;
  throw Error(ExitCode::kUsage, "SIGCHLD",
              "is ignored in this process, and so it is not told how the ones that it starts end",
              "have it be SIG_DFL before");
}

}  // namespace

Child::Child(const std::function<int()>& work, const std::filesystem::path& log) {
  check_that_ends_are_told();
  int descriptor = -1;
  if (!log.empty()) {
    descriptor = above_standard(::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
    if (descriptor < 0) throw_io_error(log, "opening for writing");
  }
  std::fflush(nullptr);
  end_openmp_threads();
  const pid_t parent = ::getpid();
  pid_ = fork_without_locks();
  if (pid_ == 0) {
    depend_on(parent);
    become(work, descriptor);
  }
  if (descriptor >= 0) ::close(descriptor);
  if (pid_ < 0) throw_io_error(log, "starting a process");
}

Child::~Child() {
  if (ended_) return;
  send(SIGKILL);
  wait();
}

int Child::wait() {
  while (!ended_) reap(0);
  return result_;
}

void Child::reap(int options) {
  int status = 0;
  const pid_t done = ::waitpid(pid_, &status, options);
  if (done == 0 || (done < 0 && errno == EINTR)) return;
  ended_ = true;
  // Another part of the program may have taken the result of a process that is not its own.
  result_ = done == pid_ ? meaning(status) : static_cast<int>(ExitCode::kInternal);
}

int Child::wait_forwarding_stop(const std::function<void()>& tick) {
  constexpr double kTickSeconds = 0.2;
  bool told = false;
  while (!ended_within(kTickSeconds)) {
    tick();
    if (told || pending_interrupt() != Interrupt::kStop) continue;
    send(SIGTERM);
    told = true;
  }
  return wait();
}

bool Child::ended_within(double seconds) {
  const Stopwatch watch;
  for (;;) {
    if (!ended_) reap(WNOHANG);
    if (ended_) return true;
    if (watch.seconds() >= seconds) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void Child::send(int signal) const {
  if (!ended_) ::kill(pid_, signal);
}

bool Child::stopped() const {
  siginfo_t found{};
  const bool known = ::waitid(P_PID, static_cast<id_t>(pid_), &found, WSTOPPED | WNOHANG | WNOWAIT) == 0;
  return !ended_ && known && found.si_pid == pid_;
}

std::string named_signal(int signal) {
  return cat("signal ", signal, " (", ::strsignal(signal), ")");
}

std::string ended_how(int result) {
  return result < 0 ? cat("was killed by ", named_signal(-result)) : cat("ended with code ", result);
}

}  // namespace autotrain
