#pragma once

#include <string>
#include <vector>

#include "data/image_file.h"

namespace autotrain::test {

/// Pixels of one colour.
DecodedImage plain_image(int64_t height, int64_t width, const std::vector<uint8_t>& colour);

/// Colours that change smoothly over the image, so that JPEG keeps them nearly as they are.
DecodedImage gradient_image(int64_t height, int64_t width, int64_t channels);

/// The bytes of a PNG or JPEG file.
std::string png_file(const DecodedImage& image);
std::string jpeg_file(const DecodedImage& image, int quality = 95);

/// A file's bytes as the decoders take them; `file` must outlive the result.
std::span<const uint8_t> bytes_of(const std::string& file);

}  // namespace autotrain::test
