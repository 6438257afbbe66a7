#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "base/files.h"

namespace autotrain {

/// Fields of files that may be damaged or of another version: what is not there, or not of the type, is
/// "none".

/// The object in a file of JSON; an empty one where there is none, or none that can be read.
inline nlohmann::ordered_json read_json(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return nlohmann::ordered_json::object();
  auto json = nlohmann::ordered_json::parse(read_file(path), nullptr, /*allow_exceptions=*/false);
  return json.is_object() ? json : nlohmann::ordered_json::object();
}

inline double number_of(const nlohmann::ordered_json& value) {
  return value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN();
}

/// NaN: none.
inline double number_in(const nlohmann::ordered_json& row, const std::string& name) {
  return row.contains(name) ? number_of(row[name]) : std::numeric_limits<double>::quiet_NaN();
}

/// 0: none.
inline int64_t count_in(const nlohmann::ordered_json& row, const std::string& name) {
  const double value = number_in(row, name);
  return value >= 0 && value < 0x1p53 ? static_cast<int64_t>(value) : 0;
}

/// "": none.
inline std::string text_in(const nlohmann::ordered_json& row, const std::string& name) {
  return row.contains(name) && row[name].is_string() ? row[name].get<std::string>() : "";
}

/// False: none.
inline bool flag_in(const nlohmann::ordered_json& row, const std::string& name) {
  return row.contains(name) && row[name].is_boolean() && row[name].get<bool>();
}

/// An empty object: none.
inline const nlohmann::ordered_json& part_in(const nlohmann::ordered_json& row, const std::string& name) {
  static const nlohmann::ordered_json kNone = nlohmann::ordered_json::object();
  return row.contains(name) && row[name].is_structured() ? row[name] : kNone;
}

}  // namespace autotrain
