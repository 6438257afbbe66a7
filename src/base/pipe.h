#pragma once

#include <optional>
#include <string>

namespace autotrain {

/// Lines of text from one process to another that is a copy of it (fork).
class Pipe {
 public:
  /// @throws Error(kInputOutput).
  Pipe();
  ~Pipe();
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  /// All of `text`; what the other end no longer reads is lost.
  void write(const std::string& text) const;

  /// This process will not write. The reader meets the end when no process can write.
  void close_writing();

  /// The next line without its end; "" when none came within so long or a signal came; nothing at the end. A
  /// last line without its end is dropped: its writer died over it.
  std::optional<std::string> read_line(int timeout_milliseconds);

 private:
  int reading_ = -1, writing_ = -1;
  std::string buffer_;
};

}  // namespace autotrain
