#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <string_view>

#include "base/descriptors.h"
#include "base/heap_refused.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/command.h"
#include "comm/launch.h"
#include "device/device_error.h"
#include "device/failure.h"

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

// Without the destructors of static objects, which would ask a device that is lost.
[[noreturn]] void leave(int code) {
  std::fflush(nullptr);
  std::_Exit(code);
}

}  // namespace
}  // namespace autotrain

int main(int argc, char** argv) {
  using namespace autotrain;
  fill_standard_descriptors();
  raise_limit_of_open_files();
  // Known even when the rest of the command line is wrong.
  const bool json =
      std::any_of(argv, argv + argc, [](const char* word) { return std::string_view(word) == "--json"; });
  const LostDeviceScope lost(
      [json](const DeviceLost& error) -> DeviceLost { leave(fail(error.code(), error.what(), json)); });
  try {
    const ExitCode code = naming_device_errors([&] { return run_command_line(argc, argv); });
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
      return fail(ExitCode::kInputOutput, "standard output: writing failed\n  try: is the disk full?", false);
    }
    return static_cast<int>(code);
  } catch (const DeviceLost& error) {
    leave(fail(error.code(), error.what(), json));
  } catch (const Error& error) {
    return fail(error.code(), error.what(), json);
  } catch (const std::exception& error) {
    if (classify_failure(error) == Failure::kOutOfMemory) {
      const Error refused = heap_refused();
      return fail(refused.code(), refused.what(), json);
    }
    return fail(ExitCode::kInternal,
                cat("internal: ", error.what(), "\n  this is a bug of autotrain; please report it"), json);
  }
}
