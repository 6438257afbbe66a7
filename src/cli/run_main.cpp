#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <filesystem>
#include <string_view>

#include "autotrain/program.h"
#include "base/descriptors.h"
#include "base/heap_refused.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/command.h"
#include "comm/launch.h"
#include "device/device_error.h"
#include "device/failure.h"
#include "setup/users_code.h"

namespace autotrain {
namespace {

// With --json, a program that reads standard output learns of it there.
int fail(ExitCode code, const std::string& text, bool json) {
  std::fprintf(stderr, "error: %s\n", text.c_str());
  const nlohmann::ordered_json failure = {{"error", text}, {"exit_code", static_cast<int>(code)}};
  if (json) std::fputs(text_of_json(failure).c_str(), stdout);
  tell_torchrun(process_environment(), text, std::time(nullptr));
  return static_cast<int>(code);
}

// Whoever starts this program may have set what it needs otherwise: ignored, SIGCHLD would keep from it how
// its own processes end. One that no longer reads its output must not end it. Ranks, which are started
// through /proc/self/exe, would be called "exe" by ps.
void be_oneself(const char* command) {
  ::signal(SIGCHLD, SIG_DFL);
  ::signal(SIGPIPE, SIG_IGN);
  ::prctl(PR_SET_NAME, std::filesystem::path(command).filename().c_str());
}

// The terminal was closed, or the program behind the pipe has ended.
bool nobody_reads(std::FILE* out) {
  pollfd end{.fd = ::fileno(out), .events = POLLOUT, .revents = 0};
  return ::poll(&end, 1, 0) == 1 && (end.revents & (POLLERR | POLLHUP)) != 0;
}

bool is_closed(int descriptor) {
  return ::fcntl(descriptor, F_GETFD) < 0 && errno == EBADF;
}

// Whether the command is of no use but for what it prints on standard output.
bool prints_all_it_does(int argc, char** argv, bool json) {
  const std::string_view command = argc > 1 ? argv[1] : "";
  return json || command == "config" || command == "schema";
}

// A reader of progress may go away; one of the result has then not got it.
int fail_output(bool gone) {
  const char* const text = gone ? "standard output: its reader went away before the result was written\n"
                                  "  try: read it to its end, or write it to a file"
                                : "standard output: writing failed\n  try: is the disk full?";
  return fail(ExitCode::kInputOutput, text, false);
}

// Without the destructors of static objects, which would ask a device that is lost.
[[noreturn]] void leave(int code) {
  std::fflush(nullptr);
  std::_Exit(code);
}

}  // namespace

int run_main(int argc, char** argv, const Registry& registry) {
  const bool no_output = is_closed(STDOUT_FILENO);
  fill_standard_descriptors();
  raise_limit_of_open_files();
  be_oneself(argv[0]);
  // Known even when the rest of the command line is wrong.
  const bool json =
      std::any_of(argv, argv + argc, [](const char* word) { return std::string_view(word) == "--json"; });
  if (no_output && prints_all_it_does(argc, argv, json)) {
    return fail(ExitCode::kInputOutput,
                "standard output: is closed, and the result is to be written there\n  try: > FILE", false);
  }
  const LostDeviceScope lost(
      [json](const DeviceLost& error) -> DeviceLost { leave(fail(error.code(), error.what(), json)); });
  try {
    add_to_recipes(registry);
    const ExitCode code = naming_device_errors([&] { return run_command_line(argc, argv); });
    const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
    const bool gone = !written && nobody_reads(stdout);
    if (!written && code == ExitCode::kDone && (json || !gone)) return fail_output(gone);
    return static_cast<int>(code);
  } catch (const DeviceLost& error) {
    leave(fail(error.code(), error.what(), json));
  } catch (const Error& error) {
    return fail(error.code(), error.what(), json);
  } catch (const std::filesystem::filesystem_error& error) {  // of a path that may not be looked at
    const Error told(ExitCode::kInputOutput, error.path1().string(), error.code().message(),
                     "check that it is there, and who may read and write it");
    return fail(told.code(), told.what(), json);
  } catch (const std::exception& error) {
    if (classify_failure(error) == Failure::kOutOfMemory) {
      const Error refused = heap_refused();
      return fail(refused.code(), refused.what(), json);
    }
    return fail(ExitCode::kInternal,
                cat("internal: ", error.what(), "\n  this is a bug of autotrain; please report it"), json);
  } catch (...) {
    return fail(ExitCode::kBrokenContract,
                cat("the program's own code ", words_of_odd_exception(), "\n  try: throw autotrain::Error"),
                json);
  }
}

}  // namespace autotrain
