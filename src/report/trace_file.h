#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace autotrain {

/// Collects who did what when over some updates, and writes it as a trace that Perfetto and chrome://tracing
/// open: Chrome's JSON trace event format, complete ("X") events in microseconds.
class TraceFile {
 public:
  /// @param first,last updates of the trace, both included.
  TraceFile(std::filesystem::path path, int64_t first, int64_t last)
      : path_(std::move(path)), first_(first), last_(last) {}

  /// A span on a named track. From any thread; ignored unless collecting.
  /// @param start,end seconds of one clock, the same for all tracks.
  void add(const std::string& track, const std::string& name, double start, double end,
           const std::map<std::string, int64_t>& details = {});

  /// After every update: collects from the first on, and writes the file after the last. A file that cannot
  /// be written is a warning.
  void advance(int64_t updates);

  /// At the run's end: writes what was collected if that is not done yet.
  void write();

 private:
  struct Span {
    std::string track, name;
    double start, end;
    std::map<std::string, int64_t> details;
  };

  const std::filesystem::path path_;
  const int64_t first_, last_;
  void write_now();

  std::mutex mutex_;
  bool collecting_ = false;
  bool written_ = false;
  std::vector<Span> spans_;
};

}  // namespace autotrain
