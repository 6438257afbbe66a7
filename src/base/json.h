#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/enum_names.h"
#include "base/files.h"

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
    const auto take = [&](auto number) {
      if (!std::in_range<Value>(number))
        throw nlohmann::json::out_of_range::create(406, "number out of range", &json);
      value = static_cast<Value>(number);
    };
    // Read as a signed number, an unsigned one of 64 bits would turn negative.
    if (json.is_number_unsigned())
      take(json.get<uint64_t>());
    else
      take(json.get_ref<const nlohmann::ordered_json::number_integer_t&>());
  } else {
    json.get_to(value);
  }
}

/// The whole number itself. @throws nlohmann::json::exception when it is none, or does not fit.
template <std::integral Value>
Value whole_number(const nlohmann::ordered_json& json) {
  Value value = 0;
  read_exactly(json, value);
  return value;
}

/// A list of such values.
template <class Value>
void read_exactly(const nlohmann::ordered_json& json, std::vector<Value>& values) {
  values.clear();
  for (const auto& item : json.get_ref<const nlohmann::ordered_json::array_t&>()) {
    read_exactly(item, values.emplace_back());
  }
}

// Fields of records. A record lists its fields once, in a function that calls `visit(name, member)` for each;
// writing and reading both visit that list. Overloads for other types are found by their namespace.

/// Enums are written by their word, an unset optional as null.
template <class Value>
nlohmann::ordered_json field_to_json(const Value& value) {
  if constexpr (std::is_enum_v<Value>) {
    return to_string(value);
  } else if constexpr (std::same_as<Value, std::optional<double>>) {
    return or_null(value);
  } else {
    return value;
  }
}

/// @throws nlohmann::json::exception when the types differ, or for a word that the enum does not have: it
/// comes from a newer version or a damaged file.
template <class Value>
void read_field(const nlohmann::ordered_json& json, Value& value) {
  if constexpr (std::is_enum_v<Value>) {
    const auto word = parse_enum<Value>(json.get<std::string>());
    if (!word) throw nlohmann::json::out_of_range::create(403, "unknown word", &json);
    value = *word;
  } else if constexpr (std::same_as<Value, std::optional<double>>) {
    value = optional_number(json);
  } else {
    read_exactly(json, value);
  }
}

/// JSON has no number that is not finite: such a one is written as null, and null is NaN.
inline void read_field(const nlohmann::ordered_json& json, std::map<std::string, double>& numbers) {
  numbers = numbers_of(json);
}

/// Writes the fields that it visits.
struct FieldWriter {
  nlohmann::ordered_json& json;

  template <class Value>
  void operator()(const char* name, const Value& value) const {
    json[name] = field_to_json(value);
  }

  template <class Value>
  void added(const char* name, const Value& value) const {
    (*this)(name, value);
  }
};

/// Reads the fields that it visits. @throws nlohmann::json::exception when one is missing or of another type.
struct FieldReader {
  const nlohmann::ordered_json& json;

  template <class Value>
  void operator()(const char* name, Value& value) const {
    read_field(json.at(name), value);
  }

  /// A field that records of earlier versions do not have.
  template <class Value>
  void added(const char* name, Value& value) const {
    if (json.contains(name)) (*this)(name, value);
  }
};

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

/// As an indent: all in one line, as messages between processes are.
inline constexpr int kOneLine = -1;

/// JSON as text, by which alone this program writes it. Bytes that are no UTF-8, as paths and messages of the
/// system may have, become U+FFFD instead of an exception.
inline std::string words_of_json(const nlohmann::ordered_json& json, int indent = kOneLine) {
  return json.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

/// The same, indented, with a last newline.
inline std::string text_of_json(const nlohmann::ordered_json& json, int indent = 2) {
  return words_of_json(json, indent) + "\n";
}

/// As it is read back once it was written: what was kept is compared with this.
inline nlohmann::ordered_json as_written(const nlohmann::ordered_json& json) {
  return nlohmann::ordered_json::parse(words_of_json(json));
}

/// Text that must come back as it is, such as a path that is opened again: where it is no UTF-8, the list of
/// its bytes.
inline nlohmann::ordered_json exact_text(const std::string& text) {
  nlohmann::ordered_json json = text;
  if (as_written(json) == json) return json;
  return std::vector<uint8_t>(text.begin(), text.end());
}

/// The text itself. @throws nlohmann::json::exception when it is neither.
inline std::string read_exact_text(const nlohmann::ordered_json& json) {
  if (json.is_string()) return json.get<std::string>();
  const auto bytes = json.get<std::vector<uint8_t>>();
  return {bytes.begin(), bytes.end()};
}

/// A value as people write it: strings without quotation marks.
inline std::string plain_text(const nlohmann::ordered_json& value) {
  return value.is_string() ? value.get<std::string>() : words_of_json(value);
}

}  // namespace autotrain
