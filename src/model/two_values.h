#pragma once

#include <cstdint>

namespace autotrain {

/// What each of many items is one of, compared bit by bit.
template <class Item>
struct TwoValues {
  Item low = 0;
  Item high = 0;
};

/// Writes ⌈count ÷ 8⌉ bytes, a bit for each item: set where it is `high`. Item i is bit i % 8 of byte i ÷ 8.
/// Items are unsigned integers of 8, 16, 32 or 64 bits. Returns whether each was one of the two.
template <class Item>
bool pack_bits(const Item* items, int64_t count, TwoValues<Item> values, uint8_t* bits);

/// Writes `count` items, of which `pack_bits` made the bits.
template <class Item>
void unpack_bits(const uint8_t* bits, int64_t count, TwoValues<Item> values, Item* items);

}  // namespace autotrain
