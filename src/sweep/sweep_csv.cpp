#include "report/csv_file.h"
#include "sweep/sweep.h"
#include "sweep/sweep_fields.h"

namespace autotrain {
namespace {

using Cells = std::vector<std::string>;

std::string cell(const std::string& text) {
  return text;
}

std::string cell(double number) {
  return csv_number(number);
}

std::string cell(int64_t number) {
  return std::to_string(number);
}

std::string cell(const std::optional<double>& number) {
  return number ? csv_number(*number) : "";
}

// Columns of what was measured end to end, empty where it was not.
void add_end_to_end(const SweepVariant& variant, int64_t batch, Cells& line) {
  const auto found = variant.end_to_end.find(batch);
  const EndToEnd e = found != variant.end_to_end.end() ? found->second : EndToEnd{};
  const bool known = found != variant.end_to_end.end() && e.failure.empty();
  line.push_back(e.failure);
  visit_end_to_end(e, [&](const char*, const auto& value) { line.push_back(known ? cell(value) : ""); });
  line.push_back(known ? to_string(e.slowest().first) : "");
}

Cells header() {
  const SweepPoint none;
  const EndToEnd nothing;
  Cells names = {"key", "value", "precision", "batch", "failure"};
  visit_figures(none, [&](const char* name, const auto&) { names.push_back(name); });
  names.insert(names.end(), {"predicted_batch", "knee_batch", "end_to_end_failure"});
  visit_end_to_end(
      nothing, [&](const char* name, const auto&) { names.push_back(std::string("end_to_end_") + name); });
  names.emplace_back("end_to_end_slowest_stage");
  return names;
}

}  // namespace

std::string to_csv(const Sweep& sweep) {
  std::string text = csv_line(header());
  for (const SweepVariant& variant : sweep.variants) {
    for (const SweepPoint& point : variant.points) {
      Cells line = {sweep.key, variant.value, variant.precision, std::to_string(point.batch), point.failure};
      visit_figures(point, [&](const char*, const auto& value) {
        line.push_back(point.failure.empty() ? cell(value) : "");
      });
      line.push_back(variant.predicted > 0 ? csv_number(variant.predicted) : "");
      line.push_back(variant.knee ? csv_number(variant.knee->batch) : "");
      add_end_to_end(variant, point.batch, line);
      text += csv_line(line);
    }
  }
  return text;
}

}  // namespace autotrain
