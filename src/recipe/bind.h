#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/enum_names.h"
#include "recipe/sections.h"

namespace autotrain {

/// A key bound to the member of a recipe that holds its value, which must outlive the field. Of an optional
/// member, unset prints as "auto" where the key knows that word, else as null.
Field bind(KeySpec spec, bool& member);
Field bind(KeySpec spec, int64_t& member);
Field bind(KeySpec spec, double& member);
Field bind(KeySpec spec, std::string& member);
Field bind(KeySpec spec, std::optional<std::string>& member);
Field bind(KeySpec spec, std::vector<std::string>& member);
Field bind(KeySpec spec, std::optional<int64_t>& member);
Field bind(KeySpec spec, std::optional<double>& member);
Field bind(KeySpec spec, std::optional<bool>& member);

/// A key whose values are the words of an enum.
template <class E>
Field bind_enum(const std::string& name, const std::string& sentence, E& member,
                Decides decides = Decides::kUndeclared) {
  return {word_key(name, sentence, choices_of<E>()).deciding(decides),
          [&] { return Value(to_string(member)); },
          [&](const Value& value) { member = *parse_enum<E>(std::get<std::string>(value)); }};
}

/// Amounts are text with a form: "2GiB", "1 epoch", "5%".
template <class Amount>
Field bind_amount(const KeySpec& spec, Amount& member, const char* form, const char* pattern) {
  return {
      spec.with_form(form, pattern, [](const std::string& text) { return Amount::parse(text).has_value(); }),
      [&] { return Value(member.text()); },
      [&](const Value& value) { member = *Amount::parse(std::get<std::string>(value)); }};
}

/// A section that chooses a row; `choice` gives null while an optional section is absent.
Section choosing(std::string path, std::string sentence, const char* choice_key, const char* choice_sentence,
                 const std::vector<ChoiceSpec>& rows, std::function<Choice*()> choice);

/// A list of patterns of names.
KeySpec patterns_key(const char* name, const char* sentence);

/// Bytes, or a share of what `share_of` names.
Field bind_budget(const KeySpec& spec, Budget& member, const char* example, const char* share_of);

/// The same, or one for each kind of device.
Field bind_budgets(const KeySpec& spec, DeviceBudgets& member, const char* example, const char* share_of);

/// Regular expressions of the numbers that amounts begin with, as `Interval` and `Span` read them: "1000",
/// "1e3". Those of `kCountPattern` are whole, but for fractions that an exponent makes whole.
inline constexpr const char* kCountPattern =
    "[+]?([0-9]+([.]0*)?|([0-9]+[.]?[0-9]*|[.][0-9]+)[eE][+]?[0-9]+)";
inline constexpr const char* kNumberPattern = "[+]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?";

/// The key `every`.
Field bind_interval(const std::string& sentence, Interval& member, Decides decides = Decides::kUndeclared);

}  // namespace autotrain
