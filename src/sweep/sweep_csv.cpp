#include "report/csv_file.h"
#include "sweep/csv_cells.h"
#include "sweep/sweep.h"
#include "sweep/sweep_columns.h"

namespace autotrain {
namespace {

using Cells = std::vector<std::string>;

void add_end_to_end(const SweepVariant& variant, int64_t batch, Cells& line) {
  const auto found = variant.end_to_end.find(batch);
  const EndToEnd* const e = found != variant.end_to_end.end() ? &found->second : nullptr;
  line.push_back(e == nullptr ? "" : e->failure);
  add_csv_cells(line, end_to_end_columns(), e != nullptr && e->failure.empty() ? e : nullptr);
}

Cells header() {
  Cells names = {"key", "value", "precision", "batch", "failure"};
  for (std::string& name : csv_header(point_columns())) names.push_back(std::move(name));
  for (std::string& name : csv_header(memory_columns())) names.push_back(std::move(name));
  names.insert(names.end(), {"predicted_batch", "knee_batch", "end_to_end_failure"});
  for (std::string& name : csv_header(end_to_end_columns(), "end_to_end_")) names.push_back(std::move(name));
  return names;
}

}  // namespace

std::string to_csv(const Sweep& sweep) {
  std::string text = csv_line(header());
  for (const SweepVariant& variant : sweep.variants) {
    for (const SweepPoint& point : variant.points) {
      Cells line = {sweep.key, variant.value, variant.precision, std::to_string(point.batch), point.failure};
      add_csv_cells(line, point_columns(), point.failure.empty() ? &point : nullptr);
      add_csv_cells(line, memory_columns(), &point.memory);
      line.push_back(variant.predicted > 0 ? csv_number(variant.predicted) : "");
      line.push_back(variant.knee ? csv_number(variant.knee->batch) : "");
      add_end_to_end(variant, point.batch, line);
      text += csv_line(line);
    }
  }
  return text;
}

}  // namespace autotrain
