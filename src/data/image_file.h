#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/enum_names.h"

namespace autotrain {

/// Pixels.
struct ImageSize {
  int64_t height = 0;
  int64_t width = 0;
  bool operator==(const ImageSize&) const = default;
};

/// Larger than any image: decoding at least at this size is decoding at full size.
constexpr ImageSize kFullSize{1 << 20, 1 << 20};

/// How far the outermost pixels reach beyond the image, in parts of a pixel below 1.
struct Overhang {
  double top = 0;
  double left = 0;
  double bottom = 0;
  double right = 0;
};

/// Pixels of an image file, [height, width, channels] bytes, row by row.
struct DecodedImage {
  std::vector<uint8_t> pixels = {};
  ImageSize size = {};       ///< of `pixels`
  int64_t channels = 0;      ///< 1: grey; 3: red, green, blue
  ImageSize full_size = {};  ///< of the file, as it is turned; `size` is smaller after scaled decoding
  int64_t largest = 255;     ///< value of a colour, of files with 16 bits before they became 8
  Overhang overhang = {};    ///< after scaled decoding of an image whose sides the scale does not divide
};

/// What becomes of alpha. Where it is the same in all of an image it is no picture, and is dropped.
enum class AlphaUse {
  kAuto,   ///< on white; on black where all that is seen is nearly white
  kWhite,  ///< the image is laid on white
  kBlack,
  kDrop,  ///< the colours of transparent pixels are taken as they are
};

constexpr auto enum_names(AlphaUse) {
  using A = AlphaUse;
  return std::array{EnumName<A>{A::kAuto, "auto"}, EnumName<A>{A::kWhite, "white"},
                    EnumName<A>{A::kBlack, "black"}, EnumName<A>{A::kDrop, "drop"}};
}

/// How a file's pixels become those of an image.
struct ImageReading {
  AlphaUse alpha = AlphaUse::kAuto;
  bool upright = true;  ///< turned as its metadata say
  int64_t bits = 16;    ///< of those of 16 bits that are used, 8 to 16: 255 is the largest value of so many
};

/// What a file's header says.
struct ImageFacts {
  const char* format = "";  ///< "JPEG"
  ImageSize size = {};      ///< as it is stored
  int64_t channels = 0;     ///< 1: grey, 3: colours, 4: inks
  int64_t bits = 8;         ///< of a channel
  bool alpha = false;
  bool palette = false;
  int64_t unread_bands = 0;    ///< samples of a pixel beside its colours and alpha, which are left out
  bool unmarked_inks = false;  ///< inks without Adobe's mark, by which they are known to be stored inverted
  int orientation = 1;         ///< as of EXIF, 1 to 8; 1: stored upright
};

/// @param file the whole file; little is read behind the header. @param where names it in errors.
/// @throws Error(kBadData) when the header is damaged, of another format, or states more than 2²⁸ pixels,
/// more than 65,500 in a row or column, or more than a file of so many bytes can hold.
ImageFacts read_image_facts(std::span<const uint8_t> file, const std::string& where);

/// The size of the image, as it is turned. @throws as read_image_facts.
ImageSize read_image_size(std::span<const uint8_t> file, const std::string& where, bool upright = true);

/// Decodes an image file. A JPEG is decoded at the smallest of an eighth, a quarter and a half of its
/// size that gives at least `least` in both directions, at full size when none does: that saves up to half
/// the time of decoding a large photograph. Palettes become colours, CMYK becomes RGB.
/// @throws Error(kBadData) as read_image_facts, and for a file that is damaged or ends early.
DecodedImage decode_image(std::span<const uint8_t> file, const std::string& where,
                          ImageSize least = kFullSize, const ImageReading& reading = {});

/// The image with 3 channels (grey repeated) or 1 (luma of ITU-R BT.601, as JPEG's own grey).
DecodedImage with_channels(DecodedImage image, int64_t channels);

}  // namespace autotrain
