#pragma once

#include <concepts>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace autotrain {

template <class Value>
nlohmann::ordered_json or_null(const std::optional<Value>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

/// Null, as a number that is not finite is kept: NaN. @throws nlohmann::json::exception when it is neither
/// null nor a number.
inline double number_or_nan(const nlohmann::ordered_json& json) {
  return json.is_null() ? std::numeric_limits<double>::quiet_NaN() : json.get<double>();
}

/// Such numbers by name.
inline std::map<std::string, double> numbers_of(const nlohmann::ordered_json& json) {
  std::map<std::string, double> numbers;
  for (const auto& [name, value] : json.items()) numbers[name] = number_or_nan(value);
  return numbers;
}

/// Null: nothing. @throws nlohmann::json::exception when it is neither null nor a number.
inline std::optional<double> optional_number(const nlohmann::ordered_json& json) {
  return json.is_null() ? std::nullopt : std::optional(json.get<double>());
}

/// Reads a value as its type and no other: a whole number never from a real one, which may not even fit.
/// @throws nlohmann::json::exception when the types differ or the number does not fit.
template <class Value>
void read_exactly(const nlohmann::ordered_json& json, Value& value) {
  if constexpr (std::integral<Value> && !std::same_as<Value, bool>) {
    const auto number = json.get_ref<const nlohmann::ordered_json::number_integer_t&>();
    if (!std::in_range<Value>(number)) {
      throw nlohmann::json::out_of_range::create(406, "number out of range", &json);
    }
    value = static_cast<Value>(number);
  } else {
    json.get_to(value);
  }
}

/// A list of such values.
template <class Value>
void read_exactly(const nlohmann::ordered_json& json, std::vector<Value>& values) {
  values.clear();
  for (const auto& item : json.get_ref<const nlohmann::ordered_json::array_t&>()) {
    read_exactly(item, values.emplace_back());
  }
}

}  // namespace autotrain
