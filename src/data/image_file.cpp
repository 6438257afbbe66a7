#include "data/image_file.h"

#include <algorithm>

#include "autotrain/error.h"
#include "base/text.h"
#include "data/image_codec.h"

namespace autotrain {
namespace {

constexpr int64_t kMostPixels = int64_t{1} << 28;

[[noreturn]] void fail_format(std::span<const uint8_t> file, const std::string& where) {
  if (file.empty()) fail_image(where, "the file is empty");
  throw Error(ExitCode::kBadData, where, "is neither a JPEG nor a PNG file",
              "convert it to one of these, or remove it");
}

}  // namespace

void fail_image(const std::string& where, const std::string& what) {
  throw Error(ExitCode::kBadData, where, what, "the file is damaged; get it again, or remove it");
}

void check_image_size(const ImageSize& size, int64_t most_pixels, const std::string& where) {
  // The sides first: the product of two that a header may state overflows.
  if (std::max(size.height, size.width) > kLongestSide || size.height * size.width > kMostPixels) {
    throw Error(ExitCode::kBadData, where,
                cat("is ", size.height, " × ", size.width, " pixels; images may have ", kLongestSide,
                    " in a row or column and ", kMostPixels, " in all"),
                "scale it down");
  }
  if (size.height * size.width > most_pixels) {
    fail_image(where, cat("the header promises ", size.height, " × ", size.width,
                          " pixels, which a file of so few bytes cannot hold"));
  }
}

ImageSize read_image_size(std::span<const uint8_t> file, const std::string& where) {
  if (is_jpeg(file)) return read_jpeg_size(file, where);
  if (is_png(file)) return read_png_size(file, where);
  fail_format(file, where);
}

DecodedImage decode_image(std::span<const uint8_t> file, const std::string& where, ImageSize least) {
  if (is_jpeg(file)) return decode_jpeg(file, where, least);
  if (is_png(file)) return decode_png(file, where);
  fail_format(file, where);
}

DecodedImage with_channels(DecodedImage image, int64_t channels) {
  if (image.channels == channels) return image;
  const std::vector<uint8_t> from = std::move(image.pixels);
  const auto pixels = static_cast<size_t>(image.size.height * image.size.width);
  image.channels = channels;
  image.pixels.resize(pixels * static_cast<size_t>(channels));
  if (channels == 3) {
    for (size_t i = 0; i < pixels; ++i) std::fill_n(image.pixels.data() + 3 * i, 3, from[i]);
    return image;
  }
  // 0.299 R + 0.587 G + 0.114 B in 16 fractional bits, rounded.
  for (size_t i = 0; i < pixels; ++i) {
    const uint32_t luma = 19595u * from[3 * i] + 38470u * from[3 * i + 1] + 7471u * from[3 * i + 2];
    image.pixels[i] = static_cast<uint8_t>((luma + 0x8000) >> 16);
  }
  return image;
}

}  // namespace autotrain
