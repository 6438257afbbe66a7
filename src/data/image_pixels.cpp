#include <algorithm>
#include <utility>

#include "data/image_codec.h"

namespace autotrain {
namespace {

constexpr uint8_t kSeen = 128;         // alpha of pixels that are more seen than not
constexpr uint8_t kNearlyWhite = 224;  // what is lighter cannot be told from white

// Whether all that is seen would be lost on white.
bool all_nearly_white(const DecodedImage& image) {
  const auto channels = static_cast<size_t>(image.channels);
  for (size_t at = 0; at < image.pixels.size(); at += channels) {
    const uint8_t* const pixel = image.pixels.data() + at;
    if (pixel[channels - 1] >= kSeen && *std::min_element(pixel, pixel + channels - 1) < kNearlyWhite)
      return false;
  }
  return true;
}

bool alpha_varies(const DecodedImage& image) {
  const auto channels = static_cast<size_t>(image.channels);
  for (size_t at = channels - 1; at < image.pixels.size(); at += channels) {
    if (image.pixels[at] != image.pixels[channels - 1]) return true;
  }
  return false;
}

// What lies below the image, where it is seen at all.
uint32_t ground_of(const DecodedImage& image, AlphaUse use) {
  if (use == AlphaUse::kBlack) return 0;
  return use == AlphaUse::kAuto && all_nearly_white(image) ? 0 : 255;
}

}  // namespace

void settle_alpha(DecodedImage& image, AlphaUse use) {
  if (image.channels == 1 || image.channels == 3) return;
  const bool laid = use != AlphaUse::kDrop && alpha_varies(image);
  const uint32_t ground = laid ? ground_of(image, use) : 0;
  const auto channels = static_cast<size_t>(image.channels);
  const size_t pixels = image.pixels.size() / channels;
  uint8_t* to = image.pixels.data();
  for (const uint8_t* from = to; from != image.pixels.data() + pixels * channels; from += channels) {
    const uint32_t alpha = laid ? from[channels - 1] : 255;
    for (size_t c = 0; c + 1 < channels; ++c)
      *to++ = static_cast<uint8_t>((from[c] * alpha + ground * (255 - alpha) + 127) / 255);
  }
  image.pixels.resize(pixels * (channels - 1));
  --image.channels;
}

void turn_upright(DecodedImage& image, int orientation) {
  if (orientation == 1) return;
  const bool lies_down = orientation >= 5;  // rows are columns of the upright image
  // Where the upright image's rows and columns run against those that are stored.
  const bool from_below = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  const bool from_right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const ImageSize stored = image.size;
  if (lies_down) std::swap(image.size.height, image.size.width);
  if (lies_down) std::swap(image.full_size.height, image.full_size.width);
  const Overhang over = image.overhang;
  const auto [first_row, last_row] =
      from_below ? std::pair(over.bottom, over.top) : std::pair(over.top, over.bottom);
  const auto [first_column, last_column] =
      from_right ? std::pair(over.right, over.left) : std::pair(over.left, over.right);
  image.overhang = lies_down ? Overhang{first_column, first_row, last_column, last_row}
                             : Overhang{first_row, first_column, last_row, last_column};
  const std::vector<uint8_t> from = std::exchange(image.pixels, std::vector<uint8_t>(image.pixels.size()));
  const auto channels = static_cast<size_t>(image.channels);
  uint8_t* to = image.pixels.data();
  for (int64_t y = 0; y < image.size.height; ++y) {
    for (int64_t x = 0; x < image.size.width; ++x, to += channels) {
      const int64_t along = lies_down ? x : y, across = lies_down ? y : x;
      const int64_t row = from_below ? stored.height - 1 - along : along;
      const int64_t column = from_right ? stored.width - 1 - across : across;
      std::copy_n(from.data() + static_cast<size_t>(row * stored.width + column) * channels, channels, to);
    }
  }
}

}  // namespace autotrain
