#include "report/metrics_file.h"

#include <cmath>

#include "base/json.h"
#include "base/text.h"
#include "report/report_enums.h"
#include "report/run_columns.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

using Json = nlohmann::ordered_json;

constexpr double kFlushSeconds = 0.5;

fs::path prepared(const fs::path& path, std::optional<int64_t> keep_bytes) {
  if (keep_bytes && fs::exists(path)) cut_lines(path, *keep_bytes);
  return path;
}

}  // namespace

Json finite_or_null(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

Json figures_to_json(const std::map<std::string, double>& figures) {
  Json json = Json::object();
  for (const auto& [name, value] : figures) json[name] = finite_or_null(value);
  return json;
}

MetricsFile::MetricsFile(const fs::path& path, std::optional<int64_t> keep_bytes)
    : file_(prepared(path, keep_bytes), OutputFile::Mode::kAppend),
      bytes_(static_cast<int64_t>(fs::file_size(path))) {}

MetricsFile::~MetricsFile() {
  try {
    flush();
  } catch (const std::exception&) {
    // Reported where it matters: `flush` is called before every checkpoint and at the end.
  }
}

void MetricsFile::append(const Json& row) {
  const std::string line = text_of_json(row, kOneLine);
  buffer_ += line;
  bytes_ += static_cast<int64_t>(line.size());
  if (since_flush_.seconds() >= kFlushSeconds) flush();
}

void MetricsFile::flush() {
  if (!buffer_.empty()) file_.write(buffer_);
  buffer_.clear();
  since_flush_.restart();
}

Json metrics_row(const UpdateRecord& r) {
  Json row = {{"kind", "update"}};
  row.update(json_of(update_columns(), r));
  return row;
}

Json metrics_row(const EvaluationRecord& r) {
  Json row = {{"kind", "evaluation"}};
  for (const Column<EvaluationRecord>& column : evaluation_columns()) {
    row[column.name] = with_nulls(column.value(r));
    if (column.name == "split") row.update(figures_to_json(r.figures));
  }
  return row;
}

Json metrics_row(const EventRecord& r) {
  return {{"kind", "event"}, {"update", r.update}, {"event", to_string(r.event)}, {"detail", r.detail}};
}

void for_each_row(const fs::path& path, const std::function<void(const nlohmann::ordered_json&)>& use) {
  for_each_line(path, [&](std::string_view line) {
    const auto row = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (row.is_object()) use(row);
  });
}

std::vector<Json> read_metrics(const fs::path& path) {
  std::vector<Json> rows;
  for_each_row(path, [&](const Json& row) { rows.push_back(row); });
  return rows;
}

std::string to_string(EventKind kind) {
  return to_string<EventKind>(kind);
}

std::string to_string(RunStatus status) {
  return to_string<RunStatus>(status);
}

std::string to_string(StopReason reason) {
  return to_string<StopReason>(reason);
}

Json summary_to_json(const Summary& s) {
  return json_of(summary_columns(), RunEnd{s});
}

std::vector<std::string> timed_keys() {
  std::vector<std::string> keys;
  const auto add = [&](const auto& columns) {
    for (const auto& column : columns) {
      if (column.timed) keys.push_back(column.name);
    }
  };
  add(update_columns());
  add(evaluation_columns());
  return keys;
}

}  // namespace autotrain
