#include "recipe/patterns.h"

#include <algorithm>

#include "autotrain/error.h"
#include "base/text.h"

namespace autotrain {

bool matches_any(const std::string& name, const std::vector<std::string>& patterns) {
  return std::ranges::any_of(patterns,
                             [&](const std::string& pattern) { return matches_pattern(name, pattern); });
}

void fail_unmatched(const std::string& key, const std::string& pattern, const std::vector<std::string>& names,
                    const char* what) {
  const std::string near = nearest(pattern, names);
  throw Error(ExitCode::kBadRecipe, key, cat(quote(pattern), " matches no ", what),
              near.empty() ? "there are " + some_of(names) : "did you mean " + quote(near) + "?");
}

void check_patterns(const std::string& key, const std::vector<std::string>& patterns,
                    const std::vector<std::string>& names, const char* what) {
  for (const std::string& pattern : patterns) {
    const bool matches =
        std::ranges::any_of(names, [&](const std::string& name) { return matches_pattern(name, pattern); });
    if (!matches) fail_unmatched(key, pattern, names, what);
  }
}

}  // namespace autotrain
