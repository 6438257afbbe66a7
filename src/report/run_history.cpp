#include "report/run_history.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "report/csv_file.h"
#include "report/json_fields.h"
#include "report/metrics_file.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

using Json = nlohmann::ordered_json;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// A name without a column yet gets one; the rows before have no number there.
void add_row(Columns& columns, const std::vector<std::pair<std::string, double>>& cells) {
  auto& [names, values] = columns;
  const size_t rows_before = columns.rows();
  for (auto& column : values) column.push_back(kNone);
  for (size_t i = 0; i < cells.size(); ++i) {
    const auto& [name, value] = cells[i];
    const bool in_place = i < names.size() && names[i] == name;  // as in nearly every row
    const auto found = in_place ? names.begin() + static_cast<ptrdiff_t>(i) : std::ranges::find(names, name);
    const auto index = static_cast<size_t>(found - names.begin());
    if (index == names.size()) {
      names.push_back(name);
      values.emplace_back(rows_before + 1, kNone);
    }
    values[index].back() = value;
  }
}

// The numbers of a row; those of an object in it under "object.name".
std::vector<std::pair<std::string, double>> cells_of(const Json& row) {
  std::vector<std::pair<std::string, double>> cells;
  for (const auto& [name, value] : row.items()) {
    if (value.is_object()) {
      for (const auto& [inner, number] : value.items())
        cells.emplace_back(name + "." + inner, number_of(number));
    } else if (!value.is_string()) {
      cells.emplace_back(name, number_of(value));
    }
  }
  return cells;
}

EvaluationRecord evaluation_of(const Json& row) {
  static const std::set<std::string> kNoFigures = {"kind", "update", "epoch", "split", "seconds", "samples"};
  EvaluationRecord record{.update = count_in(row, "update"),
                          .epoch = number_in(row, "epoch"),
                          .split = text_in(row, "split"),
                          .seconds = number_in(row, "seconds"),
                          .samples = count_in(row, "samples")};
  for (const auto& [name, value] : row.items()) {
    if (!kNoFigures.contains(name)) record.figures[name] = number_of(value);
  }
  return record;
}

// The run went back to `update`: what was beyond it is replaced by what follows.
void go_back(RunHistory& history, int64_t update) {
  std::erase_if(history.evaluations, [&](const EvaluationRecord& record) { return record.update > update; });
  const std::vector<double>* const updates = history.updates.find("update");
  if (updates == nullptr) return;
  const auto end = std::find_if(updates->begin(), updates->end(),
                                [&](double each) { return each > static_cast<double>(update); });
  const auto rows = static_cast<size_t>(end - updates->begin());
  for (auto& values : history.updates.values) values.resize(rows);
}

void add(RunHistory& history, const Json& row) {
  const std::string kind = text_in(row, "kind");
  if (kind == "update") add_row(history.updates, cells_of(row));
  if (kind == "evaluation") history.evaluations.push_back(evaluation_of(row));
  if (kind != "event") return;
  history.events.push_back({count_in(row, "update"), text_in(row, "event"), text_in(row, "detail")});
  if (history.events.back().event == "rollback") go_back(history, history.events.back().update);
}

void write_updates(const fs::path& path, const Columns& updates) {
  CsvFile file(path, updates.names);
  std::vector<std::string> cells(updates.names.size());
  for (size_t row = 0; row < updates.rows(); ++row) {
    for (size_t i = 0; i < cells.size(); ++i) cells[i] = csv_number(updates.values[i][row]);
    file.add_row(cells);
  }
  file.finish();
}

void write_evaluations(const fs::path& path, const std::vector<EvaluationRecord>& evaluations) {
  std::set<std::string> figures;
  for (const EvaluationRecord& record : evaluations) {
    for (const auto& [name, value] : record.figures) figures.insert(name);
  }
  std::vector<std::string> header = {"update", "epoch", "split", "seconds", "samples"};
  header.insert(header.end(), figures.begin(), figures.end());
  CsvFile file(path, header);
  for (const EvaluationRecord& r : evaluations) {
    std::vector<std::string> cells = {std::to_string(r.update), csv_number(r.epoch), r.split,
                                      csv_number(r.seconds), std::to_string(r.samples)};
    for (const std::string& name : figures) {
      const auto figure = r.figures.find(name);
      cells.push_back(csv_number(figure == r.figures.end() ? kNone : figure->second));
    }
    file.add_row(cells);
  }
  file.finish();
}

}  // namespace

const std::vector<double>* Columns::find(const std::string& name) const {
  const auto found = std::find(names.begin(), names.end(), name);
  return found == names.end() ? nullptr : &values[static_cast<size_t>(found - names.begin())];
}

RunHistory read_history(const fs::path& metrics_file) {
  RunHistory history;
  if (fs::exists(metrics_file)) for_each_row(metrics_file, [&](const Json& row) { add(history, row); });
  return history;
}

Columns read_columns(const fs::path& file) {
  Columns columns;
  if (fs::exists(file)) for_each_row(file, [&](const Json& row) { add_row(columns, cells_of(row)); });
  return columns;
}

void write_csv_files(const fs::path& folder, const RunHistory& history) {
  write_updates(folder / "metrics.csv", history.updates);
  write_evaluations(folder / "evaluations.csv", history.evaluations);
}

}  // namespace autotrain
