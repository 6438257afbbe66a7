#pragma once

#include <cstdint>
#include <string>

namespace autotrain::test {

/// A number as IDX headers have it: four bytes, big endian.
inline std::string word(uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16), static_cast<char>(value >> 8),
          static_cast<char>(value)};
}

}  // namespace autotrain::test
