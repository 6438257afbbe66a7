#include "report/run_csv.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/json.h"
#include "report/csv_file.h"
#include "report/run_columns.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

using Json = nlohmann::ordered_json;

void write_columns(const fs::path& path, const Columns& columns) {
  CsvFile file(path, columns.names);
  std::vector<std::string> cells(columns.names.size());
  for (size_t row = 0; row < columns.rows(); ++row) {
    for (size_t i = 0; i < cells.size(); ++i) cells[i] = csv_number(columns.values[i][row]);
    file.add_row(cells);
  }
  file.finish();
}

void write_evaluations(const fs::path& path, const std::vector<EvaluationRecord>& evaluations) {
  std::set<std::string> figures;
  for (const EvaluationRecord& record : evaluations) {
    for (const auto& [name, value] : record.figures) figures.insert(name);
  }
  std::vector<std::string> header = csv_header(evaluation_columns());
  header.insert(header.end(), figures.begin(), figures.end());
  CsvFile file(path, header);
  for (const EvaluationRecord& r : evaluations) {
    std::vector<std::string> cells = csv_cells(evaluation_columns(), r);
    for (const std::string& name : figures) {
      const auto figure = r.figures.find(name);
      cells.push_back(csv_number(figure == r.figures.end() ? kNoNumber : figure->second));
    }
    file.add_row(cells);
  }
  file.finish();
}

// A row for each object of a list, a column for each name that occurs.
void write_rows(const fs::path& path, const Json& rows) {
  std::vector<std::string> names;
  for (const Json& row : rows) {
    for (const auto& [name, value] : row.items()) {
      if (!value.is_structured() && std::ranges::count(names, name) == 0) names.push_back(name);
    }
  }
  CsvFile file(path, names);
  for (const Json& row : rows) {
    std::vector<std::string> cells;
    for (const std::string& name : names) cells.push_back(row.contains(name) ? csv_cell(row[name]) : "");
    file.add_row(cells);
  }
  file.finish();
}

// A row for each value; those of an object in it under "object.name".
void write_values(const fs::path& path, const Json& values) {
  CsvFile file(path, {"name", "value"});
  for (const auto& [name, value] : values.items()) {
    if (!value.is_object()) file.add_row({name, csv_cell(value)});
    if (!value.is_object()) continue;
    for (const auto& [inner, number] : value.items()) {
      if (!number.is_structured()) file.add_row({name + "." + inner, csv_cell(number)});
    }
  }
  file.finish();
}

}  // namespace

std::vector<fs::path> write_csv_files(const fs::path& folder, const RunHistory& history) {
  std::vector<fs::path> written;
  const auto write = [&](const char* name, const auto& writer, const auto& what) {
    written.push_back(folder / name);
    writer(written.back(), what);
  };
  write("metrics.csv", write_columns, history.updates);
  write("evaluations.csv", write_evaluations, history.evaluations);
  const Columns telemetry = read_columns(folder / "telemetry.jsonl");
  if (telemetry.rows() > 0) write("telemetry.csv", write_columns, telemetry);
  const Json probes = part_in(part_in(read_json(folder / "plan.json"), "search"), "probes");
  if (!probes.empty()) write("probes.csv", write_rows, probes);
  const Json summary = read_json(folder / "summary.json");
  if (!summary.empty()) write("summary.csv", write_values, summary);
  return written;
}

}  // namespace autotrain
