#include "recipe/variables.h"

#include <cstdlib>

#include "base/text.h"

namespace autotrain {
namespace {

constexpr size_t kLongestValue = 1 << 20;

bool is_name(std::string_view text) {
  if (text.empty() || (text[0] >= '0' && text[0] <= '9')) return false;
  for (const char c : text) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    if (!letter && !(c >= '0' && c <= '9')) return false;
  }
  return true;
}

// The text between "${" and "}".
std::string resolve(std::string_view reference, const Location& at, const LookUp& look_up) {
  const size_t colon = reference.find(":-");
  const std::string name(reference.substr(0, colon));
  if (!is_name(name)) {
    fail_at(at, cat(quote(name), " is not the name of a variable"),
            "write ${NAME} or ${NAME:-default}; $$ stands for a dollar sign");
  }
  const auto value = look_up(name);
  if (colon != std::string_view::npos) {
    return value && !value->empty() ? *value : std::string(reference.substr(colon + 2));
  }
  if (!value)
    fail_at(at, cat("the variable ", name, " is not set"), cat("set it, or write ${", name, ":-default}"));
  return *value;
}

std::string expand(const std::string& text, const Location& at, const LookUp& look_up) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    if (text.compare(i, 2, "$$") == 0) {
      out += '$';
      i += 2;
    } else if (text.compare(i, 2, "${") == 0) {
      const size_t end = text.find('}', i);
      if (end == std::string::npos)
        fail_at(at, "\"${\" without a closing \"}\"", "close it; $$ stands for a dollar sign");
      out += resolve(std::string_view(text).substr(i + 2, end - i - 2), at, look_up);
      i = end + 1;
    } else {
      out += text[i++];
    }
    if (out.size() > kLongestValue) fail_at(at, "the value with its variables is too long", "shorten it");
  }
  return out;
}

}  // namespace

std::optional<std::string> environment_variable(const std::string& name) {
  const char* const value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

void expand_variables(YamlNode& node, const LookUp& look_up) {
  if (node.kind == YamlNode::Kind::kScalar && node.scalar.find('$') != std::string::npos) {
    node.scalar = expand(node.scalar, node.location, look_up);
    // A variable that holds nothing or "null" unsets the key, as if it had been written so.
    if (!node.quoted && (node.scalar.empty() || node.scalar == "null" || node.scalar == "~")) {
      node.kind = YamlNode::Kind::kNull;
    }
  }
  for (YamlNode& item : node.items) expand_variables(item, look_up);
  for (YamlEntry& entry : node.entries) expand_variables(entry.value, look_up);
}

}  // namespace autotrain
