#include <webp/decode.h>

#include <cstring>

#include "base/text.h"
#include "data/image_codec.h"

namespace autotrain {
namespace {

// Entropy coding takes next to nothing for a plain area, so that a short file may well be a large image.
constexpr int64_t kPlainWebpPixels = int64_t{1} << 24, kWebpPixelsPerByte = int64_t{1} << 16;

WebPBitstreamFeatures read_features(std::span<const uint8_t> file, const std::string& where) {
  WebPBitstreamFeatures features;
  if (WebPGetFeatures(file.data(), file.size(), &features) != VP8_STATUS_OK)
    fail_image(where, "damaged WebP data: the header cannot be read");
  if (features.has_animation != 0) fail_image(where, "is a WebP with several frames, which is not read");
  check_image_size({features.height, features.width},
                   kPlainWebpPixels + static_cast<int64_t>(file.size()) * kWebpPixelsPerByte, where);
  return features;
}

int orientation_of_webp(std::span<const uint8_t> file) {
  constexpr size_t kHead = 8;  // of a chunk: name and length
  for (size_t at = 12; at + kHead <= file.size();) {
    const uint8_t* const length = file.data() + at + 4;
    const size_t bytes =
        size_t{length[0]} | size_t{length[1]} << 8 | size_t{length[2]} << 16 | size_t{length[3]} << 24;
    if (bytes > file.size() - at - kHead) break;
    if (std::memcmp(file.data() + at, "EXIF", 4) == 0) {
      const std::span<const uint8_t> content = file.subspan(at + kHead, bytes);
      const bool named = bytes > 6 && std::memcmp(content.data(), "Exif\0\0", 6) == 0;  // as in a JPEG
      return orientation_of_exif(named ? content.subspan(6) : content);
    }
    at += kHead + bytes + bytes % 2;
  }
  return 1;
}

}  // namespace

bool is_webp(std::span<const uint8_t> file) {
  return file.size() >= 12 && std::memcmp(file.data(), "RIFF", 4) == 0 &&
         std::memcmp(file.data() + 8, "WEBP", 4) == 0;
}

ImageFacts read_webp_facts(std::span<const uint8_t> file, const std::string& where) {
  const WebPBitstreamFeatures features = read_features(file, where);
  return {.format = "WebP",
          .size = {features.height, features.width},
          .channels = 3,
          .alpha = features.has_alpha != 0,
          .orientation = orientation_of_webp(file)};
}

DecodedImage decode_webp(std::span<const uint8_t> file, const std::string& where) {
  const WebPBitstreamFeatures features = read_features(file, where);
  const bool alpha = features.has_alpha != 0;
  const ImageSize size{features.height, features.width};
  DecodedImage image{.size = size, .channels = alpha ? 4 : 3, .full_size = size};
  image.pixels.resize(static_cast<size_t>(size.height * size.width * image.channels));
  const auto row_bytes = static_cast<int>(size.width * image.channels);
  const auto decode = alpha ? WebPDecodeRGBAInto : WebPDecodeRGBInto;
  if (decode(file.data(), file.size(), image.pixels.data(), image.pixels.size(), row_bytes) == nullptr)
    fail_image(where, "damaged WebP data, or the file ends early");
  return image;
}

}  // namespace autotrain
