#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace autotrain {

/// Pixels.
struct ImageSize {
  int64_t height = 0;
  int64_t width = 0;
  bool operator==(const ImageSize&) const = default;
};

/// Larger than any image: decoding at least at this size is decoding at full size.
constexpr ImageSize kFullSize{1 << 20, 1 << 20};

/// Pixels of an image file, [height, width, channels] bytes, row by row.
struct DecodedImage {
  std::vector<uint8_t> pixels = {};
  ImageSize size = {};       ///< of `pixels`
  int64_t channels = 0;      ///< 1: grey; 3: red, green, blue
  ImageSize full_size = {};  ///< in the file; `size` is smaller after scaled decoding
};

/// The size that a JPEG or PNG file's header states; reads nothing behind the header.
/// @param file the whole file. @param where names it in errors.
/// @throws Error(kBadData) when the header is damaged, of another format, or states more than 2²⁸ pixels,
/// more than 65,500 in a row or column, or more than a file of so many bytes can hold.
ImageSize read_image_size(std::span<const uint8_t> file, const std::string& where);

/// Decodes a JPEG or PNG file. A JPEG is decoded at the smallest of an eighth, a quarter and a half of its
/// size that gives at least `least` in both directions, at full size when none does: that saves up to half
/// the time of decoding a large photograph. Palettes become colours, 16 bits their high 8, CMYK becomes RGB;
/// alpha is dropped. A rotation noted in metadata is not applied.
/// @throws Error(kBadData) as read_image_size, and for a file that is damaged or ends early.
DecodedImage decode_image(std::span<const uint8_t> file, const std::string& where,
                          ImageSize least = kFullSize);

/// The image with 3 channels (grey repeated) or 1 (luma of ITU-R BT.601, as JPEG's own grey).
DecodedImage with_channels(DecodedImage image, int64_t channels);

}  // namespace autotrain
