#pragma once

#include <concepts>
#include <nlohmann/json.hpp>

namespace autotrain {

/// Reads a value as its type and no other: a whole number never from a real one, which may not even fit.
/// @throws nlohmann::json::exception when the types differ.
template <class Value>
void read_exactly(const nlohmann::ordered_json& json, Value& value) {
  if constexpr (std::integral<Value> && !std::same_as<Value, bool>) {
    value = static_cast<Value>(json.get_ref<const nlohmann::ordered_json::number_integer_t&>());
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
