#pragma once

#include <cstdio>
#include <string>

#include "base/clock.h"

namespace autotrain {

/// Lines that are redrawn in place on a terminal. Elsewhere nothing is shown.
class LiveText {
 public:
  /// @param out where to draw; kept by the caller.
  explicit LiveText(std::FILE* out);
  ~LiveText();
  LiveText(const LiveText&) = delete;
  LiveText& operator=(const LiveText&) = delete;

  /// Whether a new text would be shown now; spares the work of making it.
  bool due() const;

  /// @param text whole lines; longer ones than the terminal's are cut.
  void show(const std::string& text);

  /// Removes it, so that other output does not run into it.
  void clear();

 private:
  std::FILE* out_;
  bool terminal_;
  size_t lines_ = 0;  // that stand
  Stopwatch since_shown_;
};

}  // namespace autotrain
