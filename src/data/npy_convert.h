#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "data/npy_array.h"

namespace autotrain {

/// Converts `count` elements of a type that lie at `from`, where they need not be aligned.
void convert_elements(NpyType type, const uint8_t* from, int64_t count, float* to);
void convert_elements(NpyType type, const uint8_t* from, int64_t count, double* to);
void convert_elements(NpyType type, const uint8_t* from, int64_t count, int64_t* to);
void convert_elements(NpyType type, const uint8_t* from, int64_t count, bool* to);

/// Calls `visit(number, at)` for each element of the rows [first, first + count) in their order, `at`
/// counting from 0, until it returns false.
template <class Number, class Visit>
void for_each_element(const NpyArray& array, int64_t first, int64_t count, Visit visit) {
  constexpr int64_t kBlock = 1024;
  std::vector<Number> block(kBlock);
  const int64_t elements = count * array.row_size(), bytes = bytes_of(array.type());
  for (int64_t start = 0; start < elements; start += kBlock) {
    const int64_t here = std::min(kBlock, elements - start);
    convert_elements(array.type(), array.row(first) + start * bytes, here, block.data());
    for (int64_t i = 0; i < here; ++i) {
      if (!visit(block[static_cast<size_t>(i)], start + i)) return;
    }
  }
}

}  // namespace autotrain
