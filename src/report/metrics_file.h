#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "autotrain/report.h"
#include "base/clock.h"
#include "base/files.h"

namespace autotrain {

/// The row of metrics.jsonl that a record becomes.
nlohmann::ordered_json metrics_row(const UpdateRecord& record);
nlohmann::ordered_json metrics_row(const EvaluationRecord& record);
nlohmann::ordered_json metrics_row(const EventRecord& record);

/// metrics.jsonl: one JSON object a line, appended; the truth that everything else derives from.
class MetricsFile {
 public:
  /// Opens for appending. With `keep_bytes`, first cuts what stands beyond them (and a torn last line),
  /// so that a resumed run continues where its checkpoint stands.
  /// @throws Error(kInputOutput).
  MetricsFile(const std::filesystem::path& path, std::optional<int64_t> keep_bytes);
  ~MetricsFile();

  /// Length of the file with all that was written so far.
  int64_t bytes() const { return bytes_; }

  template <class Record>
  void write(const Record& record) {
    append(metrics_row(record));
  }

  /// Hands what was written to the system. Happens by itself every half second.
  void flush();

 private:
  void append(const nlohmann::ordered_json& row);

  OutputFile file_;
  int64_t bytes_;
  std::string buffer_;
  Stopwatch since_flush_;
};

/// The keys of rows that tell of clocks and memory, in which two runs that compute the same differ.
std::vector<std::string> timed_keys();

/// Calls `use` with each row of a file of JSON lines, one at a time; a torn last line is left out.
/// @throws as InputFile does.
void for_each_row(const std::filesystem::path& path,
                  const std::function<void(const nlohmann::ordered_json&)>& use);

/// The rows of a metrics file, a torn last line left out. @throws as InputFile does.
std::vector<nlohmann::ordered_json> read_metrics(const std::filesystem::path& path);

/// summary.json.
nlohmann::ordered_json summary_to_json(const Summary& summary);

/// Figures by name, as JSON has them.
nlohmann::ordered_json figures_to_json(const std::map<std::string, double>& figures);

/// A number as JSON has it: a non-finite one is null.
nlohmann::ordered_json finite_or_null(double value);

}  // namespace autotrain
