#include "cli/run_apart.h"

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "autotrain/error.h"
#include "base/child.h"
#include "base/error_json.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/pipe.h"
#include "base/text.h"
#include "device/device_error.h"
#include "study/study.h"

namespace autotrain {
namespace {

// In the process apart. The caller's process prints the error, once.
int do_and_tell(const std::function<int()>& work, const Pipe& pipe) {
  install_signal_handlers();
  const LostDeviceScope lost([&](const DeviceLost& error) -> DeviceLost {
    pipe.write(text_of_json(error_to_json(error), kOneLine));
    std::_Exit(static_cast<int>(error.code()));
  });
  try {
    return naming_device_errors(work);
  } catch (const Error& error) {
    pipe.write(text_of_json(error_to_json(error), kOneLine));
    return static_cast<int>(error.code());
  }
}

}  // namespace

void run_apart(const char* command, const std::string& where, const std::string& part,
               const std::function<int()>& work, const std::filesystem::path& log) {
  Pipe pipe;
  Child child([&] { return do_and_tell(work, pipe); }, log);
  pipe.close_writing();  // so that it ends with the process
  std::string failure;
  const auto listen = [&] {
    if (const auto line = pipe.read_line(0)) failure += *line;
  };
  const int code = child.wait_forwarding_stop(listen);
  listen();
  stop_if_interrupted(command, cat("stopped by a signal in its ", part).c_str());
  if (!failure.empty()) throw error_from_json(nlohmann::ordered_json::parse(failure));
  if (code != 0) {
    throw Error(exit_code_of(code), where, cat("the process of its ", part, " ", ended_how(code)),
                log.empty() ? "its messages above say why" : cat("see ", log.string()));
  }
}

}  // namespace autotrain
