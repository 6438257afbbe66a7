#pragma once

#include <cstdio>
#include <functional>
#include <mutex>
#include <string>

#include "autotrain/log.h"
#include "base/clock.h"

namespace autotrain {

/// Lines that show how a long job goes. On a terminal they are redrawn in place. Called from several threads.
class LiveText {
 public:
  /// What is shown where `out` is no terminal.
  enum class Elsewhere {
    kNothing,
    kLines,  ///< the text anew every few seconds
  };

  /// @param out where to draw; kept by the caller.
  explicit LiveText(std::FILE* out, Elsewhere elsewhere = Elsewhere::kNothing);
  ~LiveText();
  LiveText(const LiveText&) = delete;
  LiveText& operator=(const LiveText&) = delete;

  /// Whether a new text would be shown now; spares the work of making it.
  bool due() const;

  /// @param text whole lines; longer ones than the terminal's are cut.
  void show(const std::string& text);

  /// Removes what was drawn in place.
  void clear();

  /// Has other output written where nothing is drawn: what was is removed, and nothing new comes before
  /// `write` returns, which must not use this object.
  void above(const std::function<void()>& write);

 private:
  bool shows_nothing() const { return !terminal_ && elsewhere_ == Elsewhere::kNothing; }
  void erase();

  mutable std::mutex mutex_;
  std::FILE* out_;
  bool terminal_;
  Elsewhere elsewhere_;
  size_t lines_ = 0;  // that stand on the terminal
  bool shown_ = false;
  Stopwatch since_shown_;
};

/// What log::terminal_sink writes, above these lines, which have to outlive the sink.
log::Sink terminal_sink_above(LiveText& live);

/// Columns of the terminal that `out` is; 100 when it is none.
size_t terminal_width(std::FILE* out);

/// The first `width` characters, never half of one.
std::string cut_to(const std::string& text, size_t width);

/// Whether `out` is a terminal.
bool is_terminal(std::FILE* out);

}  // namespace autotrain
