#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace autotrain {

/// One row of the table that maps an enum to the words of YAML and the terminal. Each enum has
/// one `constexpr auto enum_names(E)` that returns `std::array<EnumName<E>, n>`, found by
/// argument-dependent look-up; parsing, printing and the list of choices all read it.
template <class E>
struct EnumName {
  E value;
  std::string_view name;
};

/// The word of a value, for every enum that has a table.
template <class E>
requires requires {
  enum_names(E{});
}
std::string to_string(E value) {
  for (const auto& row : enum_names(E{})) {
    if (row.value == value) return std::string(row.name);
  }
  return "?";
}

template <class E>
std::optional<E> parse_enum(std::string_view name) {
  for (const auto& row : enum_names(E{})) {
    if (row.name == name) return row.value;
  }
  return std::nullopt;
}

template <class E>
std::vector<std::string> choices_of() {
  std::vector<std::string> words;
  for (const auto& row : enum_names(E{})) words.emplace_back(row.name);
  return words;
}

}  // namespace autotrain
