#include <array>
#include <limits>

#include "autotrain/error.h"
#include "base/text.h"
#include "data/image_codec.h"

namespace autotrain {
namespace {

// What stands before the pixels of a Windows bitmap.
struct BmpHeader {
  ImageSize size;
  int64_t bits = 0;  // of a pixel
  size_t pixels = 0;
  size_t row_bytes = 0;
  bool from_below = true;
  bool alpha = false;
  std::array<std::array<uint8_t, 3>, 256> palette = {};  // red, green, blue
  bool grey = false;                                     // all of the palette
};

struct LittleEndian {
  std::span<const uint8_t> file;
  uint32_t at(size_t place, size_t count) const {
    uint32_t number = 0;
    for (size_t i = count; i-- > 0;)
      number = number << 8 | (place + i < file.size() ? file[place + i] : uint8_t{0});
    return number;
  }
};

[[noreturn]] void refuse_bmp(const std::string& where, const std::string& what) {
  throw Error(ExitCode::kBadData, where, cat("is a BMP ", what, ", which is not read"),
              "convert it to PNG, or remove it");
}

void read_palette(BmpHeader& header, const LittleEndian& numbers, size_t at, size_t entry_bytes,
                  size_t entries) {
  header.grey = true;
  for (size_t i = 0; i < std::min(entries, header.palette.size()); ++i) {
    auto& colour = header.palette[i];
    for (size_t c = 0; c < 3; ++c)
      colour[c] = static_cast<uint8_t>(numbers.at(at + i * entry_bytes + 2 - c, 1));
    header.grey = header.grey && colour[0] == colour[1] && colour[1] == colour[2];
  }
}

BmpHeader read_bmp_header(std::span<const uint8_t> file, const std::string& where) {
  constexpr size_t kFileHeader = 14, kOldHeader = 12, kMasks = 54;
  const LittleEndian numbers{file};
  const size_t header_bytes = numbers.at(14, 4);
  if (file.size() < 30 || (header_bytes != kOldHeader && header_bytes < 40))
    fail_image(where, "the BMP file ends inside its header");
  const bool old = header_bytes == kOldHeader;
  const size_t side = old ? 2 : 4;
  const auto width = static_cast<int32_t>(numbers.at(18, side));
  const auto height = static_cast<int32_t>(numbers.at(18 + side, side));
  BmpHeader header{.size = {std::abs(int64_t{height}), width},
                   .bits = numbers.at(20 + 2 * side, 2),
                   .pixels = numbers.at(10, 4),
                   .from_below = height > 0};
  if (header.size.height == 0 || width <= 0) fail_image(where, "the BMP header states no pixels");
  const uint32_t packing = old ? 0 : numbers.at(30, 4);
  const bool standard_masks = numbers.at(kMasks, 4) == 0xff0000 && numbers.at(kMasks + 4, 4) == 0xff00 &&
                              numbers.at(kMasks + 8, 4) == 0xff;
  if (packing != 0 && !(packing == 3 && header.bits == 32 && standard_masks))
    refuse_bmp(where, "with packed pixels");
  header.alpha = packing == 3 && header_bytes >= 56 && numbers.at(kMasks + 12, 4) == 0xff000000;
  const bool indexed = header.bits == 1 || header.bits == 4 || header.bits == 8;
  if (!indexed && header.bits != 24 && header.bits != 32)
    refuse_bmp(where, cat("of ", header.bits, " bits a pixel"));
  check_image_size(header.size, std::numeric_limits<int64_t>::max(), where);
  header.row_bytes = (static_cast<size_t>(header.bits) * static_cast<size_t>(width) + 31) / 32 * 4;
  if (header.pixels > file.size() ||
      header.row_bytes * static_cast<size_t>(header.size.height) > file.size() - header.pixels) {
    fail_image(where, "damaged BMP data: the file ends early");
  }
  if (indexed) {
    const size_t stated = old ? 0 : numbers.at(46, 4);
    read_palette(header, numbers, kFileHeader + header_bytes, old ? 3 : 4,
                 stated > 0 ? stated : size_t{1} << header.bits);
  }
  return header;
}

}  // namespace

bool is_bmp(std::span<const uint8_t> file) {
  // Two letters are little to go by: no reader knows a header of another size.
  if (file.size() < 18 || file[0] != 'B' || file[1] != 'M') return false;
  const uint32_t header_bytes = LittleEndian{file}.at(14, 4);
  return header_bytes == 12 || (header_bytes >= 40 && header_bytes <= 124);
}

ImageFacts read_bmp_facts(std::span<const uint8_t> file, const std::string& where) {
  const BmpHeader header = read_bmp_header(file, where);
  return {.format = "BMP",
          .size = header.size,
          .channels = header.bits <= 8 && header.grey ? 1 : 3,
          .alpha = header.alpha,
          .palette = header.bits <= 8};
}

DecodedImage decode_bmp(std::span<const uint8_t> file, const std::string& where) {
  const BmpHeader header = read_bmp_header(file, where);
  const bool indexed = header.bits <= 8;
  DecodedImage image{.size = header.size,
                     .channels = indexed && header.grey ? 1
                                 : header.alpha         ? 4
                                                        : 3,
                     .full_size = header.size};
  image.pixels.reserve(static_cast<size_t>(header.size.height * header.size.width * image.channels));
  const auto width = static_cast<size_t>(header.size.width), bits = static_cast<size_t>(header.bits);
  for (int64_t y = 0; y < header.size.height; ++y) {
    const int64_t stored = header.from_below ? header.size.height - 1 - y : y;
    const uint8_t* const row = file.data() + header.pixels + static_cast<size_t>(stored) * header.row_bytes;
    for (size_t x = 0; x < width; ++x) {
      if (indexed) {
        const size_t shift = 8 - bits - x * bits % 8;
        const auto& colour = header.palette[row[x * bits / 8] >> shift & ((1u << bits) - 1)];
        image.pixels.insert(image.pixels.end(), colour.begin(), colour.begin() + image.channels);
      } else {
        const uint8_t* const pixel = row + x * bits / 8;
        image.pixels.insert(image.pixels.end(), {pixel[2], pixel[1], pixel[0]});
        if (header.alpha) image.pixels.push_back(pixel[3]);
      }
    }
  }
  return image;
}

}  // namespace autotrain
