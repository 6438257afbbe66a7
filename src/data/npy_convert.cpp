#include "data/npy_convert.h"

#include <c10/util/Half.h>

#include <cstring>

namespace autotrain {
namespace {

template <class From, class To>
void copy_elements(const uint8_t* from, int64_t count, To* to) {
  for (int64_t i = 0; i < count; ++i) {
    From element;
    std::memcpy(&element, from + i * static_cast<int64_t>(sizeof(From)), sizeof(From));
    to[i] = static_cast<To>(element);
  }
}

template <class To>
void convert(NpyType type, const uint8_t* from, int64_t count, To* to) {
  switch (type) {
    case NpyType::kBool:
      for (int64_t i = 0; i < count; ++i) to[i] = static_cast<To>(from[i] != 0);
      return;
    case NpyType::kUint8: return copy_elements<uint8_t>(from, count, to);
    case NpyType::kUint16: return copy_elements<uint16_t>(from, count, to);
    case NpyType::kUint32: return copy_elements<uint32_t>(from, count, to);
    case NpyType::kInt8: return copy_elements<int8_t>(from, count, to);
    case NpyType::kInt16: return copy_elements<int16_t>(from, count, to);
    case NpyType::kInt32: return copy_elements<int32_t>(from, count, to);
    case NpyType::kInt64: return copy_elements<int64_t>(from, count, to);
    case NpyType::kFloat16: return copy_elements<c10::Half>(from, count, to);
    case NpyType::kFloat32: return copy_elements<float>(from, count, to);
    case NpyType::kFloat64: return copy_elements<double>(from, count, to);
  }
}

}  // namespace

void convert_elements(NpyType type, const uint8_t* from, int64_t count, float* to) {
  convert(type, from, count, to);
}

void convert_elements(NpyType type, const uint8_t* from, int64_t count, double* to) {
  convert(type, from, count, to);
}

void convert_elements(NpyType type, const uint8_t* from, int64_t count, int64_t* to) {
  convert(type, from, count, to);
}

void convert_elements(NpyType type, const uint8_t* from, int64_t count, bool* to) {
  convert(type, from, count, to);
}

}  // namespace autotrain
