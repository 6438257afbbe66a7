#include <array>
#include <cstddef>

#include "data/image_codec.h"

namespace autotrain {
namespace {

// Numbers of a TIFF structure in the byte order that it begins with; what lies outside is 0.
struct Numbers {
  std::span<const uint8_t> bytes;
  bool little;

  uint32_t at(size_t place, size_t count) const {
    if (place > bytes.size() || bytes.size() - place < count) return 0;
    uint32_t number = 0;
    for (size_t i = 0; i < count; ++i) number = number << 8 | bytes[place + (little ? count - 1 - i : i)];
    return number;
  }
};

}  // namespace

int orientation_of_exif(std::span<const uint8_t> exif) {
  constexpr uint32_t kOrientation = 0x0112;
  // The sizes of whole numbers by their type: the orientation is to be a SHORT, and some write another.
  constexpr std::array<size_t, 5> kBytesOf = {0, 1, 0, 2, 4};
  constexpr size_t kEntryBytes = 12;
  if (exif.size() < 8 || exif[0] != exif[1] || (exif[0] != 'I' && exif[0] != 'M')) return 1;
  const Numbers numbers{exif, exif[0] == 'I'};
  const size_t table = numbers.at(4, 4), entries = numbers.at(table, 2);
  for (size_t i = 0; i < entries; ++i) {
    const size_t entry = table + 2 + i * kEntryBytes;
    if (entry >= exif.size()) break;
    const uint32_t type = numbers.at(entry + 2, 2);
    if (numbers.at(entry, 2) != kOrientation || type >= kBytesOf.size() || kBytesOf[type] == 0) continue;
    const uint32_t orientation = numbers.at(entry + 8, kBytesOf[type]);
    return orientation >= 1 && orientation <= 8 ? static_cast<int>(orientation) : 1;
  }
  return 1;
}

}  // namespace autotrain
