#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/text.h"

namespace autotrain {

/// "3 × 224 × 224".
inline std::string shape_text(const std::vector<int64_t>& shape) {
  std::vector<std::string> sizes;
  for (const int64_t size : shape) sizes.push_back(std::to_string(size));
  return join(sizes, " × ");
}

}  // namespace autotrain
