#include "report/run_history.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/json.h"
#include "report/metrics_file.h"
#include "report/run_columns.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

using Json = nlohmann::ordered_json;

// A name without a column yet gets one; the rows before have no number there.
void add_row(Columns& columns, const std::vector<std::pair<std::string, double>>& cells) {
  auto& [names, values] = columns;
  const size_t rows_before = columns.rows();
  for (auto& column : values) column.push_back(kNoNumber);
  for (size_t i = 0; i < cells.size(); ++i) {
    const auto& [name, value] = cells[i];
    const bool in_place = i < names.size() && names[i] == name;  // as in nearly every row
    const auto found = in_place ? names.begin() + static_cast<ptrdiff_t>(i) : std::ranges::find(names, name);
    const auto index = static_cast<size_t>(found - names.begin());
    if (index == names.size()) {
      names.push_back(name);
      values.emplace_back(rows_before + 1, kNoNumber);
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
  EvaluationRecord record;
  read_what_is_there(evaluation_columns(), row, record);
  std::set<std::string> known = {"kind"};
  for (const Column<EvaluationRecord>& column : evaluation_columns()) known.insert(column.name);
  for (const auto& [name, value] : row.items()) {
    if (!known.contains(name)) record.figures[name] = number_of(value);
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

// One that a resume made again is the one that counts.
void add_evaluation(RunHistory& history, EvaluationRecord record) {
  std::erase_if(history.evaluations, [&](const EvaluationRecord& former) {
    return former.update == record.update && former.split == record.split;
  });
  history.evaluations.push_back(std::move(record));
}

void add(RunHistory& history, const Json& row) {
  const std::string kind = text_in(row, "kind");
  if (kind == "update") add_row(history.updates, cells_of(row));
  if (kind == "evaluation") add_evaluation(history, evaluation_of(row));
  if (kind != "event") return;
  history.events.push_back({count_in(row, "update"), text_in(row, "event"), text_in(row, "detail")});
  if (history.events.back().event == to_string(EventKind::kRollback))
    go_back(history, history.events.back().update);
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

}  // namespace autotrain
