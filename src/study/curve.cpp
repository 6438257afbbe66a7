#include "study/curve.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "report/metrics_file.h"

namespace autotrain {
namespace {

using Json = nlohmann::ordered_json;

std::map<std::string, double> figures_of(const Json& row) {
  std::map<std::string, double> figures;
  for (const auto& [name, value] : row.items()) {
    if (value.is_null()) figures[name] = std::numeric_limits<double>::quiet_NaN();
    if (value.is_number()) figures[name] = value.get<double>();
  }
  for (const char* const other : {"update", "epoch", "seconds", "samples"}) figures.erase(other);
  return figures;
}

double value_of(const CurvePoint& point, const std::string& figure) {
  const auto found = point.figures.find(figure);
  return found == point.figures.end() ? std::numeric_limits<double>::quiet_NaN() : found->second;
}

}  // namespace

Curve read_curve(const std::filesystem::path& metrics) {
  Curve curve;
  CurvePoint now;
  for_each_row(metrics, [&](const Json& row) {
    const std::string kind = row.value("kind", "");
    if (kind == "update") {
      now.samples = row.at("samples");
      now.seconds = row.at("training_seconds");
    } else if (kind == "evaluation") {
      now.update = row.at("update");
      now.epoch = row.value("epoch", 0.0);
      now.evaluated = row.value("samples", int64_t{0});
      now.figures = figures_of(row);
      std::erase_if(curve, [&](const CurvePoint& point) { return point.update >= now.update; });
      curve.push_back(now);
    }
  });
  return curve;
}

Json curve_to_json(const Curve& curve) {
  Json rows = Json::array();
  for (const CurvePoint& point : curve) {
    Json row = {{"update", point.update},
                {"samples", point.samples},
                {"seconds", point.seconds},
                {"epoch", point.epoch}};
    if (point.evaluated > 0) row["evaluated"] = point.evaluated;
    for (const auto& [name, value] : point.figures) row["figures"][name] = finite_or_null(value);
    rows.push_back(std::move(row));
  }
  return rows;
}

Curve curve_from_json(const Json& json) {
  Curve curve;
  for (const Json& row : json) {
    curve.push_back({.update = row.at("update"),
                     .samples = row.at("samples"),
                     .seconds = row.at("seconds"),
                     .epoch = row.value("epoch", 0.0),
                     .figures = figures_of(row.at("figures")),
                     .evaluated = row.value("evaluated", int64_t{0})});
  }
  return curve;
}

double place_of(const CurvePoint& point, FairAxis axis) {
  return axis == FairAxis::kSeconds ? point.seconds : static_cast<double>(point.samples);
}

std::optional<double> figure_at(const Curve& curve, const std::string& figure, FairAxis axis, double place) {
  const auto after = std::find_if(curve.begin(), curve.end(),
                                  [&](const CurvePoint& point) { return place_of(point, axis) >= place; });
  if (after == curve.end() || (after == curve.begin() && place_of(*after, axis) > place)) return std::nullopt;
  double value = value_of(*after, figure);
  if (place_of(*after, axis) > place) {
    const CurvePoint& before = *(after - 1);
    const double start = place_of(before, axis), of_before = value_of(before, figure);
    // std::lerp would make a number of a NaN and a number.
    value = of_before + (value - of_before) * (place - start) / (place_of(*after, axis) - start);
  }
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

double share_of_run(const StopRecipe& stop, const CurvePoint& point) {
  double share = 0;
  const auto count = [&](double done, double all) { share = std::max(share, done / all); };
  if (stop.epochs) count(point.epoch, *stop.epochs);
  if (stop.samples) count(static_cast<double>(point.samples), static_cast<double>(*stop.samples));
  if (stop.updates) count(static_cast<double>(point.update), static_cast<double>(*stop.updates));
  return std::min(share, 1.0);
}

const CurvePoint* at_share(const Curve& curve, const StopRecipe& stop, double share) {
  if (curve.empty()) return nullptr;
  const auto found = std::ranges::find_if(
      curve, [&](const CurvePoint& point) { return share_of_run(stop, point) >= share; });
  return found == curve.end() ? &curve.back() : &*found;
}

const CurvePoint* best_of(const Curve& curve, const std::string& figure, bool lower_is_better) {
  const CurvePoint* best = nullptr;
  for (const CurvePoint& point : curve) {
    const double value = value_of(point, figure);
    if (!std::isfinite(value)) continue;
    const double least = best == nullptr ? value : value_of(*best, figure);
    if (best == nullptr || (lower_is_better ? value < least : value > least)) best = &point;
  }
  return best;
}

const CurvePoint* first_reaching(const Curve& curve, const Target& target) {
  const auto found = std::find_if(curve.begin(), curve.end(), [&](const CurvePoint& point) {
    const double value = value_of(point, target.figure);
    return target.at_most ? value <= target.value : value >= target.value;
  });
  return found == curve.end() ? nullptr : &*found;
}

}  // namespace autotrain
