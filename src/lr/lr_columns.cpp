#include "lr/lr_columns.h"

#include "base/text.h"
#include "lr/suggestion.h"

namespace autotrain {
namespace {

using Json = nlohmann::ordered_json;

Column<RateStretch> rate_column(const std::string& name, const std::string& heading,
                                std::optional<double> RateStretch::*member) {
  return column<RateStretch>(name, member, {.heading = heading, .text = [member](const RateStretch& stretch) {
                                              return stretch.*member ? brief(*(stretch.*member), kRateDigits)
                                                                     : "-";
                                            }});
}

std::string edge_text(const RateStretch& stretch) {
  if (stretch.edge) return brief(*stretch.edge, kRateDigits);
  return stretch.diverges ? "below the grid" : "above the grid";
}

Json numbers_of_points(const RateStretch& stretch, double RatePoint::*member) {
  Json numbers = Json::array();
  for (const RatePoint& point : stretch.points) numbers.push_back(point.*member);
  return numbers;
}

void read_points(const Json& row, RateStretch& stretch) {
  for (size_t i = 0; i < row.at("lr").size(); ++i)
    stretch.points.push_back({row.at("lr").at(i), row.at("loss").at(i)});
}

Json held_to_json(const RateStretch& stretch) {
  Json held = Json::array();
  for (const HeldRate& each : stretch.held) held.push_back({{"lr", each.lr}, {"diverged", each.diverged}});
  return held;
}

void read_held(const Json& row, RateStretch& stretch) {
  for (const Json& held : row.at("held")) stretch.held.push_back({held.at("lr"), held.at("diverged")});
}

}  // namespace

const ColumnsOf<RateStretch>& stretch_columns() {
  using S = RateStretch;
  static const ColumnsOf<S> columns = {
      column<S>("position", &S::position, {.unit = Unit::kCount}),
      column<S>("start_loss", &S::start_loss, {.heading = "loss at its start"}),
      column<S>("edge", &S::edge, {.heading = "divergence edge", .text = edge_text}),
      rate_column("steepest", "steepest point", &S::steepest),
      rate_column("valley_end", "valley's end", &S::valley_end),
      column<S>("diverges", &S::diverges),
      {.name = "lr",
       .value = [](const S& stretch) { return numbers_of_points(stretch, &RatePoint::lr); },
       .read = read_points},
      {.name = "loss",
       .value = [](const S& stretch) { return numbers_of_points(stretch, &RatePoint::loss); }},
      {.name = "held", .value = held_to_json, .read = read_held},
  };
  return columns;
}

}  // namespace autotrain
