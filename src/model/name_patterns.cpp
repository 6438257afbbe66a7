#include "model/name_patterns.h"

#include "base/text.h"

namespace autotrain {

std::string part_of(const std::string& tensor) {
  const size_t dot = tensor.rfind('.');
  return dot == std::string::npos ? "" : tensor.substr(0, dot);
}

bool takes(const std::string& pattern, const std::string& tensor) {
  for (std::string name = tensor; !name.empty(); name = part_of(name)) {
    if (matches_pattern(name, pattern)) return true;
  }
  return false;
}

}  // namespace autotrain
