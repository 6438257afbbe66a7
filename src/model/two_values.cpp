#include "model/two_values.h"

#include <bit>
#include <cstring>

namespace autotrain {
namespace {

constexpr int64_t kBitsOfByte = 8;
constexpr uint64_t kOnes = 0x0101010101010101, kSevens = 0x7f * kOnes;

// Eight bytes lie in a word in their order.
template <class Item>
constexpr bool kInWords = sizeof(Item) == 1 && std::endian::native == std::endian::little;

// Up to eight items as bits. @param strange gets a bit where an item is neither.
template <class Item>
uint8_t byte_of(const Item* items, int64_t count, TwoValues<Item> values, Item& strange) {
  const auto differs = static_cast<Item>(values.low ^ values.high);
  unsigned byte = 0;
#pragma GCC unroll 8
  for (int64_t k = 0; k < count; ++k) {
    const auto difference = static_cast<Item>(items[k] ^ values.low);
    const bool is_high = difference != 0;
    byte |= static_cast<unsigned>(is_high) << k;
    strange |= static_cast<Item>(difference ^ (is_high ? differs : Item{0}));
  }
  return static_cast<uint8_t>(byte);
}

uint8_t byte_of_word(const uint8_t* items, TwoValues<uint8_t> values, uint8_t& strange) {
  constexpr uint64_t kGather = 0x0102040810204080;  // brings the lowest bit of byte k to bit 56 + k
  uint64_t word = 0;
  std::memcpy(&word, items, sizeof word);
  const uint64_t difference = word ^ (values.low * kOnes);
  const uint64_t truths = ((((difference & kSevens) + kSevens) | difference) >> 7) & kOnes;
  const uint64_t differs = values.low ^ values.high;
  strange |= static_cast<uint8_t>(difference != truths * differs);
  return static_cast<uint8_t>((truths * kGather) >> 56);
}

template <class Item>
void items_of(uint8_t byte, int64_t count, TwoValues<Item> values, Item* items) {
  const auto differs = static_cast<Item>(values.low ^ values.high);
#pragma GCC unroll 8
  for (int64_t k = 0; k < count; ++k) {
    const auto all_or_none = static_cast<Item>(-((byte >> k) & 1));
    items[k] = static_cast<Item>(values.low ^ (differs & all_or_none));
  }
}

void word_of(uint8_t byte, TwoValues<uint8_t> values, uint8_t* items) {
  constexpr uint64_t kBitOfEach = 0x8040201008040201;  // bit k of byte k
  const uint64_t truths = ((((byte * kOnes) & kBitOfEach) + kSevens) >> 7) & kOnes;
  const uint64_t differs = values.low ^ values.high;
  const uint64_t word = (values.low * kOnes) ^ (truths * differs);
  std::memcpy(items, &word, sizeof word);
}

}  // namespace

template <class Item>
bool pack_bits(const Item* items, int64_t count, TwoValues<Item> values, uint8_t* bits) {
  Item strange = 0;
  const int64_t whole = count / kBitsOfByte, rest = count % kBitsOfByte;
  for (int64_t i = 0; i < whole; ++i, items += kBitsOfByte) {
    if constexpr (kInWords<Item>) {
      bits[i] = byte_of_word(items, values, strange);
    } else {
      bits[i] = byte_of(items, kBitsOfByte, values, strange);
    }
  }
  if (rest > 0) bits[whole] = byte_of(items, rest, values, strange);
  return strange == 0;
}

template <class Item>
void unpack_bits(const uint8_t* bits, int64_t count, TwoValues<Item> values, Item* items) {
  const int64_t whole = count / kBitsOfByte, rest = count % kBitsOfByte;
  for (int64_t i = 0; i < whole; ++i, items += kBitsOfByte) {
    if constexpr (kInWords<Item>) {
      word_of(bits[i], values, items);
    } else {
      items_of(bits[i], kBitsOfByte, values, items);
    }
  }
  if (rest > 0) items_of(bits[whole], rest, values, items);
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
