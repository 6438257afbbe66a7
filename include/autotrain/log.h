#pragma once

#include <functional>
#include <string>
#include <string_view>

/// One line per event, tagged by the room it comes from: `[plan] micro 96 · window 3 · …`.
namespace autotrain::log {

enum class Level { kDebug, kInfo, kWarning, kError };

struct Record {
  Level level;
  std::string_view room;  ///< "plan", "device", …
  std::string_view text;  ///< one line without a newline
};

/// Receives every record at or above the level. Called under a lock, from any thread of ours;
/// it must not log.
using Sink = std::function<void(const Record&)>;

/// Replaces where records go. The library starts with a sink that writes warnings and errors to
/// standard error and drops the rest, so that a program which embeds it stays silent.
void set_sink(Sink sink, Level minimum = Level::kInfo);

/// Plain text on standard error, one line a record; colour only on a terminal and only if `NO_COLOR`
/// is unset.
Sink terminal_sink();

void write(Level level, std::string_view room, std::string_view text);
void debug(std::string_view room, std::string_view text);
void info(std::string_view room, std::string_view text);
void warn(std::string_view room, std::string_view text);
void error(std::string_view room, std::string_view text);

}  // namespace autotrain::log
