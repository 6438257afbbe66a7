// This file sees spdlog and must never see a torch header: LibTorch ships a newer fmt on its
// include path, which shadows the one that Debian's spdlog was built with.
#include "autotrain/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <mutex>

namespace autotrain::log {
namespace {

spdlog::level::level_enum spdlog_level(Level level) {
  switch (level) {
    case Level::kDebug: return spdlog::level::debug;
    case Level::kInfo: return spdlog::level::info;
    case Level::kWarning: return spdlog::level::warn;
    case Level::kError: return spdlog::level::err;
  }
  return spdlog::level::err;
}

spdlog::color_mode terminal_colors() {
  const char* no_color = std::getenv("NO_COLOR");
  const bool refused = no_color != nullptr && *no_color != '\0';
  return refused ? spdlog::color_mode::never : spdlog::color_mode::automatic;
}

}  // namespace

Sink terminal_sink() {
  auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>(terminal_colors());
  auto logger = std::make_shared<spdlog::logger>("autotrain", std::move(sink));
  logger->set_pattern("%^%v%$");
  logger->set_level(spdlog::level::trace);
  return [logger](const Record& record) {
    const char* prefix = record.level == Level::kWarning ? "warning: "
                         : record.level == Level::kError ? "error: "
                                                         : "";
    logger->log(spdlog_level(record.level), "[{}] {}{}", record.room, prefix, record.text);
    logger->flush();
  };
}

namespace {

struct State {
  std::mutex mutex;
  Sink sink = terminal_sink();
  Level minimum = Level::kWarning;
};

State& state() {
  static State* const state = new State;  // outlives every static that may still log
  return *state;
}

}  // namespace

void set_sink(Sink sink, Level minimum) {
  State& s = state();
  std::lock_guard lock(s.mutex);
  s.sink = std::move(sink);
  s.minimum = minimum;
}

void write(Level level, std::string_view room, std::string_view text) {
  State& s = state();
  std::lock_guard lock(s.mutex);
  if (level < s.minimum || !s.sink) return;
  s.sink({level, room, text});
}

void debug(std::string_view room, std::string_view text) {
  write(Level::kDebug, room, text);
}
void info(std::string_view room, std::string_view text) {
  write(Level::kInfo, room, text);
}
void warn(std::string_view room, std::string_view text) {
  write(Level::kWarning, room, text);
}
void error(std::string_view room, std::string_view text) {
  write(Level::kError, room, text);
}

}  // namespace autotrain::log
