#include "report/figures_json.h"

#include <cmath>

#include "base/json.h"

namespace autotrain {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

Json kinds_to_json(const FigureKinds& kinds) {
  Json json = Json::object();
  for (const auto& [name, kind] : kinds) {
    json[name] = {{"better", kind.better == Better::kLower ? "lower" : "higher"},
                  {"share", kind.share},
                  {"unit", kind.unit},
                  {"of_samples", kind.of_samples}};
  }
  return json;
}

FigureKinds kinds_from_json(const Json& json) {
  FigureKinds kinds;
  for (const auto& [name, kind] : json.items()) {
    kinds[name] = {
        .better = kind.at("better").get<std::string>() == "lower" ? Better::kLower : Better::kHigher,
        .share = kind.at("share"),
        .unit = kind.at("unit"),
        .of_samples = kind.value("of_samples", false)};  // of former versions nothing says
  }
  return kinds;
}

Json tables_to_json(const std::vector<FigureTable>& tables) {
  Json json = Json::object();
  for (const FigureTable& table : tables) {
    Json rows = Json::array();
    for (const std::vector<double>& cells : table.cells) {
      Json& row = rows.emplace_back(Json::array());
      for (const double cell : cells) row.push_back(std::isfinite(cell) ? Json(cell) : Json(nullptr));
    }
    json[table.name] = {
        {"rows_are", table.rows_are}, {"columns_are", table.columns_are}, {"cells", std::move(rows)}};
  }
  return json;
}

std::vector<FigureTable> tables_from_json(const Json& json) {
  std::vector<FigureTable> tables;
  for (const auto& [name, table] : json.items()) {
    FigureTable& read =
        tables.emplace_back(FigureTable{name, table.at("rows_are"), table.at("columns_are"), {}});
    for (const Json& row : table.at("cells")) {
      std::vector<double>& cells = read.cells.emplace_back();
      for (const Json& cell : row) cells.push_back(number_or_nan(cell));
    }
  }
  return tables;
}

}  // namespace autotrain
