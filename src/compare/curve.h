#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/enum_names.h"

namespace autotrain {

/// An evaluation of a run and what the run had spent by then.
struct CurvePoint {
  int64_t update = 0;
  int64_t samples = 0;  ///< trained on
  double seconds = 0;   ///< spent on updates, not on searching or evaluating
  std::map<std::string, double> figures = {};
};

using Curve = std::vector<CurvePoint>;

/// What two runs are made equal in.
enum class FairAxis { kSamples, kSeconds };

constexpr auto enum_names(FairAxis) {
  return std::array{EnumName<FairAxis>{FairAxis::kSamples, "samples"},
                    EnumName<FairAxis>{FairAxis::kSeconds, "seconds"}};
}

/// A figure to be reached.
struct Target {
  std::string figure = {};
  double value = 0;
  bool at_most = false;  ///< else at least
};

/// The evaluations in the metrics file of a run. After a rollback only what replaced the lost part counts.
Curve read_curve(const std::filesystem::path& metrics);

nlohmann::ordered_json curve_to_json(const Curve& curve);
Curve curve_from_json(const nlohmann::ordered_json& json);

double place_of(const CurvePoint& point, FairAxis axis);

/// The figure at a place, on the straight line between the evaluations around it; nothing before the first,
/// beyond the last, or where it is not finite.
std::optional<double> figure_at(const Curve& curve, const std::string& figure, FairAxis axis, double place);

/// The first evaluation that reached the target; null: none did. Points into `curve`.
const CurvePoint* first_reaching(const Curve& curve, const Target& target);

}  // namespace autotrain
