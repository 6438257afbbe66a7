#include "recipe/bind.h"

#include "base/text.h"

namespace autotrain {
namespace {

bool allows_auto(const KeySpec& spec) {
  for (const std::string& word : spec.words) {
    if (word == "auto") return true;
  }
  return false;
}

// The value that an unset optional prints as: the word "auto" where the key knows it, else null.
Value unset_value(const KeySpec& spec) {
  return allows_auto(spec) ? Value(std::string("auto")) : Value(std::monostate{});
}

double as_real(const Value& value) {
  if (const auto* whole = std::get_if<int64_t>(&value)) return static_cast<double>(*whole);
  return std::get<double>(value);
}

bool is_number(const Value& value) {
  return std::holds_alternative<int64_t>(value) || std::holds_alternative<double>(value);
}

}  // namespace

Field bind(KeySpec spec, bool& member) {
  return {std::move(spec), [&] { return Value(member); },
          [&](const Value& value) { member = std::get<bool>(value); }};
}

Field bind(KeySpec spec, int64_t& member) {
  return {std::move(spec), [&] { return Value(member); },
          [&](const Value& value) { member = std::get<int64_t>(value); }};
}

Field bind(KeySpec spec, double& member) {
  return {std::move(spec), [&] { return Value(member); },
          [&](const Value& value) { member = as_real(value); }};
}

Field bind(KeySpec spec, std::string& member) {
  return {std::move(spec), [&] { return Value(member); },
          [&](const Value& value) { member = std::get<std::string>(value); }};
}

Field bind(KeySpec spec, std::optional<std::string>& member) {
  return {std::move(spec), [&] { return member ? Value(*member) : Value(std::monostate{}); },
          [&](const Value& value) { member = std::get<std::string>(value); }};
}

Field bind(KeySpec spec, std::vector<std::string>& member) {
  return {std::move(spec), [&] { return Value(member); },
          [&](const Value& value) { member = std::get<std::vector<std::string>>(value); }};
}

Field bind(KeySpec spec, std::optional<int64_t>& member) {
  const Value unset = unset_value(spec);
  return {std::move(spec), [&member, unset] { return member ? Value(*member) : unset; },
          [&](const Value& value) {
            member = is_number(value) ? std::optional(std::get<int64_t>(value)) : std::nullopt;
          }};
}

Field bind(KeySpec spec, std::optional<double>& member) {
  const Value unset = unset_value(spec);
  return {
      std::move(spec), [&member, unset] { return member ? Value(*member) : unset; },
      [&](const Value& value) { member = is_number(value) ? std::optional(as_real(value)) : std::nullopt; }};
}

Field bind(KeySpec spec, std::optional<bool>& member) {
  const Value unset = unset_value(spec);
  return {std::move(spec), [&member, unset] { return member ? Value(*member) : unset; },
          [&](const Value& value) {
            const auto* const given = std::get_if<bool>(&value);
            member = given != nullptr ? std::optional(*given) : std::nullopt;
          }};
}

Section choosing(std::string path, std::string sentence, const char* choice_key, const char* choice_sentence,
                 const std::vector<ChoiceSpec>& rows, std::function<Choice*()> choice) {
  Section section;
  section.path = std::move(path);
  section.sentence = std::move(sentence);
  section.choice_key = choice_key;
  section.choice_sentence = choice_sentence;
  section.rows = &rows;
  section.choice = std::move(choice);
  return section;
}

KeySpec patterns_key(const char* name, const char* sentence) {
  return list_key(KeyKind::kTextList, name, sentence, std::vector<std::string>())
      .with_form("names, in which * stands for any letters", "^.+$",
                 [](const std::string& text) { return !text.empty(); })
      .or_single();
}

Field bind_budget(const KeySpec& spec, Budget& member, const char* example, const char* share_of) {
  const std::string form = cat("auto, bytes such as \"", example, "\", or a share of ", share_of);
  return bind_amount(spec, member, form.c_str(),
                     "^(auto|[0-9]+([.][0-9]+)? ?([kKmMgGtT]i?[bB]?|[bB])?|[0-9]+([.][0-9]+)? ?%)$");
}

Field bind_budgets(const KeySpec& spec, DeviceBudgets& member, const char* example, const char* share_of) {
  using Parts = std::map<std::string, std::string>;
  Field field = bind_budget(spec.or_for_each({"cpu", "cuda"}), member.any, example, share_of);
  field.get = [&member] {
    if (!member.per_device()) return Value(member.any.text());
    Parts parts;
    if (member.cpu) parts["cpu"] = member.cpu->text();
    if (member.cuda) parts["cuda"] = member.cuda->text();
    return Value(parts);
  };
  field.set = [&member](const Value& value) {
    member = {};
    if (const auto* const text = std::get_if<std::string>(&value)) {
      member.any = *Budget::parse(*text);
      return;
    }
    for (const auto& [device, text] : std::get<Parts>(value))
      (device == "cpu" ? member.cpu : member.cuda) = Budget::parse(text);
  };
  return field;
}

Field bind_interval(const std::string& sentence, Interval& member, Decides decides) {
  const std::string pattern =
      cat("^(never|", kNumberPattern, "( +epochs?| *minutes?)|", kCountPattern, " *(updates?|samples?))$");
  return bind_amount(text_key("every", sentence).deciding(decides), member,
                     "\"1 epoch\", \"500 updates\", \"10000 samples\", \"10 minutes\" or never",
                     pattern.c_str());
}

}  // namespace autotrain
