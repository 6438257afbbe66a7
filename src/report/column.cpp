#include "report/column.h"

#include <cmath>

#include "base/text.h"
#include "base/units.h"

namespace autotrain {

nlohmann::ordered_json with_nulls(nlohmann::ordered_json value) {
  if (value.is_number_float() && !std::isfinite(value.get<double>())) return nullptr;
  if (value.is_structured()) {
    for (nlohmann::ordered_json& part : value) part = with_nulls(std::move(part));
  }
  return value;
}

std::string milliseconds(double seconds) {
  return seconds < 0.1 ? brief(seconds * 1e3, 3) : fixed(seconds * 1e3, 0);
}

std::string in_unit(const nlohmann::ordered_json& value, Unit unit) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  const double number = number_of(value);
  if (!std::isfinite(number)) return "-";
  switch (unit) {
    case Unit::kNumber: return brief(number);
    case Unit::kCount: return format_count(std::llround(number));
    case Unit::kBytes: return format_bytes(std::llround(number));
    case Unit::kSeconds: return format_seconds(number);
    case Unit::kMilliseconds: return milliseconds(number);
    case Unit::kRate: return format_rate(number);
    case Unit::kShare: return format_percent(number);
  }
  return "";
}

page::Axis y_axis(const Plot& plot, Unit unit) {
  page::Axis axis{.label = plot.label, .log = plot.log};
  if (unit == Unit::kBytes) axis.format = page::Format::kBytes;
  if (unit == Unit::kSeconds || unit == Unit::kMilliseconds) axis.format = page::Format::kSeconds;
  if (unit == Unit::kShare) axis.format = page::Format::kPercent;
  return axis;
}

}  // namespace autotrain
