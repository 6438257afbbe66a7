#pragma once

#include <cstdio>
#include <string>

#include "base/clock.h"

namespace autotrain {

/// One line that shows how a long job goes: redrawn in place on a terminal, else printed anew every
/// few seconds.
class ProgressLine {
 public:
  /// @param out where to draw; kept by the caller.
  explicit ProgressLine(std::FILE* out);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// Whether a new text would be shown now; spares the work of making it.
  bool due() const;

  void show(const std::string& text);

  /// Removes a line that was drawn in place, so that other output does not run into it.
  void clear();

 private:
  std::FILE* out_;
  bool terminal_;
  bool drawn_ = false;
  bool shown_ = false;
  Stopwatch since_shown_;
};

/// Columns of the terminal that `out` is; 100 when it is none.
size_t terminal_width(std::FILE* out);

/// The first `width` characters, never half of one.
std::string cut_to(const std::string& text, size_t width);

/// Whether `out` is a terminal.
bool is_terminal(std::FILE* out);

}  // namespace autotrain
