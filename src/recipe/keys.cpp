#include "recipe/keys.h"

#include <algorithm>
#include <cmath>

#include "autotrain/error.h"
#include "base/text.h"

namespace autotrain {
namespace {

std::string range_text(const KeySpec& key, const char* noun) {
  // Beyond 2⁵³ it is only that JSON readers lose digits: no bound worth a word.
  const bool low = key.least > -KeySpec::kLargest, high = key.most < KeySpec::kLargest;
  const char* const at_least = key.above_least ? " > " : " ≥ ";
  if (low && high && key.above_least) {
    return cat(noun, at_least, shortest(key.least), " and ≤ ", shortest(key.most));
  }
  if (low && high) return cat(noun, " from ", shortest(key.least), " to ", shortest(key.most));
  if (low) return cat(noun, at_least, shortest(key.least));
  if (high) return cat(noun, " ≤ ", shortest(key.most));
  return noun;
}

// "; or one each: {cpu: …, cuda: …}"
std::string parts_text(const KeySpec& key) {
  return key.parts.empty() ? "" : "; or one each: {" + join(key.parts, ": …, ") + ": …}";
}

std::string kind_text(const KeySpec& key) {
  const std::string count = key.length > 0 ? cat(" of ", key.length) : "";
  switch (key.kind) {
    case KeyKind::kBool: return "true or false";
    case KeyKind::kInteger: return range_text(key, "an integer");
    case KeyKind::kReal: return range_text(key, "a number");
    case KeyKind::kText: return (key.form.empty() ? "text" : key.form) + parts_text(key);
    case KeyKind::kWord: return join_choices(key.words);
    case KeyKind::kIntegerList: return "a list" + count + ", each " + range_text(key, "an integer");
    case KeyKind::kRealList: return "a list" + count + ", each " + range_text(key, "a number");
    case KeyKind::kTextList:
      if (key.single) return key.form + ", or a list of such";
      return key.form.empty() ? "a list of texts" : "a list, each " + key.form;
  }
  return "";
}

// A text that YAML would read as something else, or not read at all, has to be quoted.
bool needs_quotes(const std::string& text) {
  static const std::vector<std::string> special = {"",     "~",     "null",  "Null",  "NULL",  "true", "True",
                                                   "TRUE", "false", "False", "FALSE", "yes",   "no",   "on",
                                                   "off",  "y",     "n",     ".inf",  "-.inf", ".nan"};
  for (const std::string& word : special) {
    if (text == word) return true;
  }
  double number = 0;
  if (parse_real(text, number)) return true;
  const std::string plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./%- +";
  return text.find_first_not_of(plain) != std::string::npos || text.front() == '-' || text.front() == ' ' ||
         text.back() == ' ' || text.front() == '%' || text.front() == '+';
}

std::string yaml_string(const std::string& text) {
  if (!needs_quotes(text)) return text;
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (byte < 0x20) {
      constexpr char kHex[] = "0123456789abcdef";
      out += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string yaml_real(double value) {
  if (std::isnan(value)) return ".nan";
  if (std::isinf(value)) return value > 0 ? ".inf" : "-.inf";
  // YAML 1.1 readers take "1e-08" for text; they want a point before the exponent.
  std::string text = shortest(value);
  const size_t exponent = text.find('e');
  if (exponent != std::string::npos && text.find('.') == std::string::npos) {
    text.insert(exponent, ".0");
  }
  return text;
}

struct YamlPrinter {
  std::string operator()(std::monostate) const { return "null"; }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(int64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const { return yaml_real(value); }
  std::string operator()(const std::string& value) const { return yaml_string(value); }
  template <class Item>
  std::string operator()(const std::vector<Item>& values) const {
    std::vector<std::string> parts;
    for (const Item& value : values) parts.push_back((*this)(value));
    return "[" + join(parts, ", ") + "]";
  }
  std::string operator()(const std::map<std::string, std::string>& values) const {
    std::vector<std::string> parts;
    for (const auto& [name, value] : values) parts.push_back(name + ": " + yaml_string(value));
    return "{" + join(parts, ", ") + "}";
  }
};

template <class T>
T value_as(const Value& value, const std::string& key) {
  if (const T* const held = std::get_if<T>(&value)) return *held;
  throw std::logic_error("the key " + key + " is read as another type than it is declared");
}

// Whether a key allows a value of each type.
struct AllowedBy {
  const KeySpec& key;

  bool operator()(std::monostate) const { return true; }
  bool operator()(bool) const { return key.kind == KeyKind::kBool; }
  bool operator()(int64_t value) const {
    return (key.kind == KeyKind::kInteger || key.kind == KeyKind::kReal) &&
           in_range(static_cast<double>(value));
  }
  bool operator()(double value) const { return key.kind == KeyKind::kReal && in_range(value); }
  bool operator()(const std::string& value) const {
    if (std::find(key.words.begin(), key.words.end(), value) != key.words.end()) return true;
    return key.kind == KeyKind::kText && (!key.accepts || key.accepts(value));
  }
  bool operator()(const std::vector<int64_t>& items) const {
    return (key.kind == KeyKind::kIntegerList || key.kind == KeyKind::kRealList) &&
           has_length(items.size()) && std::all_of(items.begin(), items.end(), [&](int64_t item) {
             return in_range(static_cast<double>(item));
           });
  }
  bool operator()(const std::vector<double>& items) const {
    return key.kind == KeyKind::kRealList && has_length(items.size()) &&
           std::all_of(items.begin(), items.end(), [&](double item) { return in_range(item); });
  }
  bool operator()(const std::vector<std::string>& items) const {
    return key.kind == KeyKind::kTextList && has_length(items.size()) &&
           std::all_of(items.begin(), items.end(),
                       [&](const std::string& item) { return !key.accepts || key.accepts(item); });
  }

  bool operator()(const std::map<std::string, std::string>& values) const {
    return std::ranges::all_of(values, [&](const auto& part) {
      return std::ranges::count(key.parts, part.first) > 0 && (*this)(part.second);
    });
  }

  bool has_length(size_t items) const { return key.length == 0 || items == key.length; }
  bool in_range(double value) const {
    return std::isfinite(value) && value >= key.least && value <= key.most &&
           !(key.above_least && value == key.least);
  }
};

}  // namespace

KeySpec KeySpec::from(double smallest, double largest) const {
  KeySpec key = *this;
  key.least = smallest;
  key.most = largest;
  return key;
}

KeySpec KeySpec::above(double bound, double largest) const {
  KeySpec key = from(bound, largest);
  key.above_least = true;
  return key;
}

KeySpec KeySpec::in(std::string unit_name) const {
  KeySpec key = *this;
  key.unit = std::move(unit_name);
  return key;
}

KeySpec KeySpec::or_word(std::string word) const {
  KeySpec key = *this;
  key.words.push_back(std::move(word));
  return key;
}

KeySpec KeySpec::of_length(size_t items) const {
  KeySpec key = *this;
  key.length = items;
  return key;
}

KeySpec KeySpec::or_single() const {
  KeySpec key = *this;
  key.single = true;
  return key;
}

KeySpec KeySpec::or_for_each(std::vector<std::string> names) const {
  KeySpec key = *this;
  key.parts = std::move(names);
  return key;
}

KeySpec KeySpec::deciding(Decides what) const {
  KeySpec key = *this;
  key.decides = what;
  return key;
}

KeySpec KeySpec::idle_where(std::string other_key, std::vector<Value> has) const {
  KeySpec key = *this;
  key.owner = std::move(other_key);
  key.owner_off = std::move(has);
  return key;
}

KeySpec KeySpec::with_form(std::string in_words, std::string regular_expression,
                           std::function<bool(const std::string&)> test) const {
  KeySpec key = *this;
  key.form = std::move(in_words);
  key.pattern = std::move(regular_expression);
  key.accepts = std::move(test);
  return key;
}

KeySpec list_key(KeyKind kind, std::string name, std::string sentence, Value fallback) {
  KeySpec key;
  key.name = std::move(name);
  key.kind = kind;
  key.sentence = std::move(sentence);
  key.fallback = std::move(fallback);
  return key;
}

KeySpec bool_key(std::string name, std::string sentence, Value fallback) {
  return list_key(KeyKind::kBool, std::move(name), std::move(sentence), std::move(fallback));
}

KeySpec integer_key(std::string name, std::string sentence, std::optional<int64_t> fallback) {
  Value value = fallback ? Value(*fallback) : Value();
  return list_key(KeyKind::kInteger, std::move(name), std::move(sentence), std::move(value));
}

KeySpec real_key(std::string name, std::string sentence, std::optional<double> fallback) {
  Value value = fallback ? Value(*fallback) : Value();
  return list_key(KeyKind::kReal, std::move(name), std::move(sentence), std::move(value));
}

KeySpec text_key(std::string name, std::string sentence, Value fallback) {
  return list_key(KeyKind::kText, std::move(name), std::move(sentence), std::move(fallback));
}

KeySpec word_key(std::string name, std::string sentence, std::vector<std::string> words, Value fallback) {
  KeySpec key = list_key(KeyKind::kWord, std::move(name), std::move(sentence), std::move(fallback));
  key.words = std::move(words);
  return key;
}

bool allows(const KeySpec& key, const Value& value) {
  return std::visit(AllowedBy{key}, value);
}

std::string allowed_text(const KeySpec& key) {
  std::string text = kind_text(key);
  if (!key.unit.empty()) text += " (" + key.unit + ")";
  if (key.kind != KeyKind::kWord && !key.words.empty()) {
    text = join(key.words, ", ") + " or " + text;
  }
  return text;
}

std::string yaml_text(const Value& value) {
  return std::visit(YamlPrinter{}, value);
}

const Value& parameter_or_default(const Choice& choice, const KeySpec& key) {
  const auto given = choice.parameters.find(key.name);
  const bool absent =
      given == choice.parameters.end() || std::holds_alternative<std::monostate>(given->second);
  return absent ? key.fallback : given->second;
}

std::optional<int64_t> top_of(const std::string& name) {
  int64_t k = 0;
  if (!name.starts_with("top") || !parse_integer(name.substr(3), k) || k < 1) return std::nullopt;
  return k;
}

std::string last_part(const std::string& path) {
  return path.substr(path.rfind('.') + 1);
}

const Value& Parameters::value(const std::string& key) const {
  for (const KeySpec& declared : row_.keys) {
    if (declared.name == key) return parameter_or_default(choice_, declared);
  }
  throw std::logic_error("the row " + row_.name + " does not declare the key " + key);
}

int64_t Parameters::integer(const std::string& key) const {
  return value_as<int64_t>(value(key), key);
}

double Parameters::real(const std::string& key) const {
  const Value& held = value(key);
  if (const auto* whole = std::get_if<int64_t>(&held)) return static_cast<double>(*whole);
  return value_as<double>(held, key);
}

bool Parameters::flag(const std::string& key) const {
  return value_as<bool>(value(key), key);
}

std::string Parameters::text(const std::string& key) const {
  if (std::holds_alternative<std::monostate>(value(key))) return "";
  return value_as<std::string>(value(key), key);
}

std::vector<int64_t> Parameters::integers(const std::string& key) const {
  return value_as<std::vector<int64_t>>(value(key), key);
}

std::vector<double> Parameters::reals(const std::string& key) const {
  const Value& held = value(key);
  if (std::holds_alternative<std::monostate>(held)) return {};
  if (const auto* whole = std::get_if<std::vector<int64_t>>(&held)) return {whole->begin(), whole->end()};
  return value_as<std::vector<double>>(held, key);
}

std::vector<std::string> Parameters::texts(const std::string& key) const {
  return value_as<std::vector<std::string>>(value(key), key);
}

std::optional<int64_t> Parameters::optional_integer(const std::string& key) const {
  const Value& held = value(key);
  if (const auto* whole = std::get_if<int64_t>(&held)) return *whole;
  return std::nullopt;
}

}  // namespace autotrain
