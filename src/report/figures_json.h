#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "autotrain/figures.h"

namespace autotrain {

/// {"accuracy": {"better": "higher", "share": true, "unit": "", "of_samples": true}, …}
nlohmann::ordered_json kinds_to_json(const FigureKinds& kinds);

/// @throws nlohmann::json::exception when a field is missing or of the wrong type.
FigureKinds kinds_from_json(const nlohmann::ordered_json& json);

/// {"confusion_matrix": {"rows_are": "true class", "columns_are": "predicted class", "cells": [[…], …]}, …}
nlohmann::ordered_json tables_to_json(const std::vector<FigureTable>& tables);

/// @throws nlohmann::json::exception when a field is missing or of the wrong type.
std::vector<FigureTable> tables_from_json(const nlohmann::ordered_json& json);

// These make them fields of records (base/json.h).
inline nlohmann::ordered_json field_to_json(const FigureKinds& kinds) {
  return kinds_to_json(kinds);
}
inline nlohmann::ordered_json field_to_json(const std::vector<FigureTable>& tables) {
  return tables_to_json(tables);
}
inline void read_field(const nlohmann::ordered_json& json, FigureKinds& kinds) {
  kinds = kinds_from_json(json);
}
inline void read_field(const nlohmann::ordered_json& json, std::vector<FigureTable>& tables) {
  tables = tables_from_json(json);
}

}  // namespace autotrain
