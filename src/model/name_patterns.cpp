#include "model/name_patterns.h"

#include <algorithm>

#include "autotrain/error.h"
#include "base/text.h"

namespace autotrain {

std::string part_of(const std::string& tensor) {
  const size_t dot = tensor.rfind('.');
  return dot == std::string::npos ? "" : tensor.substr(0, dot);
}

bool matches_any(const std::string& name, const std::vector<std::string>& patterns) {
  return std::ranges::any_of(patterns,
                             [&](const std::string& pattern) { return matches_pattern(name, pattern); });
}

bool takes(const std::string& pattern, const std::string& tensor) {
  for (std::string name = tensor; !name.empty(); name = part_of(name)) {
    if (matches_pattern(name, pattern)) return true;
  }
  return false;
}

void fail_unmatched(const char* key, const std::string& pattern, const std::vector<std::string>& names) {
  const std::string near = nearest(pattern, names);
  throw Error(ExitCode::kBadRecipe, key, cat(quote(pattern), " matches no name of the model"),
              near.empty() ? "it has " + some_of(names) : "did you mean " + quote(near) + "?");
}

void check_patterns(const char* key, const std::vector<std::string>& patterns,
                    const std::vector<std::string>& names) {
  for (const std::string& pattern : patterns) {
    const bool matches =
        std::ranges::any_of(names, [&](const std::string& name) { return matches_pattern(name, pattern); });
    if (!matches) fail_unmatched(key, pattern, names);
  }
}

}  // namespace autotrain
