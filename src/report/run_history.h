#pragma once

#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "autotrain/report.h"

namespace autotrain {

/// Stands where a row has no number.
inline constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

/// Columns of numbers, all of one length; `kNoNumber` where a row has no number.
struct Columns {
  std::vector<std::string> names = {};
  std::vector<std::vector<double>> values = {};

  size_t rows() const { return values.empty() ? 0 : values[0].size(); }

  /// The column of that name; null when there is none.
  const std::vector<double>* find(const std::string& name) const;
};

/// An event as the file has it; its word may be one that this program does not know.
struct EventRow {
  int64_t update = 0;
  std::string event = {};
  std::string detail = {};
};

/// What metrics.jsonl tells of a run. Rows that a rollback replaced are left out.
struct RunHistory {
  Columns updates = {};  ///< as in the first row; "activity_seconds.forward" is a column of its own
  std::vector<EvaluationRecord> evaluations = {};
  std::vector<EventRow> events = {};
};

/// @return nothing in it when there is no such file.
RunHistory read_history(const std::filesystem::path& metrics_file);

/// The rows of a file of JSON lines whose every value is a number, such as telemetry.jsonl; a column for each
/// name that occurs. Empty when there is no such file.
Columns read_columns(const std::filesystem::path& file);

}  // namespace autotrain
