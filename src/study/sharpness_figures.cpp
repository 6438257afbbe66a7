#include "study/sharpness_figures.h"

#include <limits>

#include "base/json.h"
#include "report/metrics_file.h"
#include "study/statistics.h"

namespace autotrain {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kUnavailable = std::numeric_limits<double>::quiet_NaN();

// Over the directions.
template <size_t step>
double mean_rise(const Sharpness& s) {
  return s.rises.size() > step ? mean(s.rises[step]) : kUnavailable;
}

}  // namespace

Json sharpness_to_json(const Sharpness& s) {
  Json json = {{"unavailable", s.unavailable.empty() ? Json(nullptr) : Json(s.unavailable)},
               {"samples", s.samples},
               {"loss", finite_or_null(s.loss)},
               {"largest_eigenvalue", finite_or_null(s.eigenvalue)},
               {"eigenvalue_error", finite_or_null(s.eigenvalue_error)},
               {"hessian_products", s.products},
               {"squared_norm", finite_or_null(s.square)},
               {"rises", Json::array()}};
  for (size_t i = 0; i < s.rises.size(); ++i) {
    Json rises = Json::array();
    for (const double rise : s.rises[i]) rises.push_back(finite_or_null(rise));
    json["rises"].push_back({{"step", kSharpnessSteps.at(i)}, {"by_direction", std::move(rises)}});
  }
  return json;
}

Sharpness sharpness_from_json(const Json& json) {
  Sharpness s{
      .unavailable = json.at("unavailable").is_null() ? "" : json.at("unavailable").get<std::string>(),
      .samples = json.at("samples"),
      .loss = number_or_nan(json.at("loss")),
      .eigenvalue = number_or_nan(json.at("largest_eigenvalue")),
      .eigenvalue_error = number_or_nan(json.at("eigenvalue_error")),
      .products = json.at("hessian_products"),
      .square = number_or_nan(json.at("squared_norm"))};
  for (const Json& step : json.at("rises")) {
    if (s.rises.size() == kSharpnessSteps.size())
      throw Json::other_error::create(503, "has more steps than were taken", &json);
    std::vector<double>& rises = s.rises.emplace_back();
    for (const Json& rise : step.at("by_direction")) rises.push_back(number_or_nan(rise));
  }
  return s;
}

const std::vector<SharpnessFigure>& sharpness_figures() {
  static const std::vector<SharpnessFigure> figures = {
      {"loss", "loss", [](const Sharpness& s) { return s.unavailable.empty() ? s.loss : kUnavailable; }},
      {"largest_eigenvalue", "largest eigenvalue",
       [](const Sharpness& s) { return s.unavailable.empty() ? s.eigenvalue : kUnavailable; }},
      {"relative_eigenvalue", "× |weights|²",
       [](const Sharpness& s) { return s.unavailable.empty() ? s.relative_eigenvalue() : kUnavailable; }},
      {"rise_at_5_percent", "rise at 5 %", mean_rise<0>},
      {"rise_at_10_percent", "at 10 %", mean_rise<1>},
      {"rise_at_20_percent", "at 20 %", mean_rise<2>}};
  return figures;
}

}  // namespace autotrain
