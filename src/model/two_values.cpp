#include "model/two_values.h"

namespace autotrain {
namespace {

constexpr int64_t kBitsOfByte = 8;

template <class Item>
uint8_t byte_of(const Item* items, int64_t count, TwoValues<Item> values, Item& strange) {
  unsigned byte = 0;
  for (int64_t k = 0; k < count; ++k) {
    byte |= static_cast<unsigned>(items[k] == values.high) << k;
    strange |= static_cast<Item>(items[k] != values.high && items[k] != values.low);
  }
  return static_cast<uint8_t>(byte);
}

template <class Item>
void items_of(uint8_t byte, int64_t count, TwoValues<Item> values, Item* items) {
  const auto differs = static_cast<Item>(values.low ^ values.high);
  for (int64_t k = 0; k < count; ++k) {
    const auto all_or_none = static_cast<Item>(-((byte >> k) & 1));
    items[k] = static_cast<Item>(values.low ^ (differs & all_or_none));
  }
}

}  // namespace

template <class Item>
bool pack_bits(const Item* items, int64_t count, TwoValues<Item> values, uint8_t* bits) {
  Item strange = 0;
  const int64_t whole = count / kBitsOfByte, rest = count % kBitsOfByte;
  for (int64_t i = 0; i < whole; ++i)
    bits[i] = byte_of(items + i * kBitsOfByte, kBitsOfByte, values, strange);
  if (rest > 0) bits[whole] = byte_of(items + whole * kBitsOfByte, rest, values, strange);
  return strange == 0;
}

template <class Item>
void unpack_bits(const uint8_t* bits, int64_t count, TwoValues<Item> values, Item* items) {
  const int64_t whole = count / kBitsOfByte, rest = count % kBitsOfByte;
  for (int64_t i = 0; i < whole; ++i) items_of(bits[i], kBitsOfByte, values, items + i * kBitsOfByte);
  if (rest > 0) items_of(bits[whole], rest, values, items + whole * kBitsOfByte);
}

template bool pack_bits(const uint8_t*, int64_t, TwoValues<uint8_t>, uint8_t*);
template bool pack_bits(const uint16_t*, int64_t, TwoValues<uint16_t>, uint8_t*);
template bool pack_bits(const uint32_t*, int64_t, TwoValues<uint32_t>, uint8_t*);
template bool pack_bits(const uint64_t*, int64_t, TwoValues<uint64_t>, uint8_t*);
template void unpack_bits(const uint8_t*, int64_t, TwoValues<uint8_t>, uint8_t*);
template void unpack_bits(const uint8_t*, int64_t, TwoValues<uint16_t>, uint16_t*);
template void unpack_bits(const uint8_t*, int64_t, TwoValues<uint32_t>, uint32_t*);
template void unpack_bits(const uint8_t*, int64_t, TwoValues<uint64_t>, uint64_t*);

}  // namespace autotrain
