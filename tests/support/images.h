#pragma once

#include <string>
#include <vector>

#include "data/image_file.h"

namespace autotrain::test {

/// Pixels of one colour.
DecodedImage plain_image(int64_t height, int64_t width, const std::vector<uint8_t>& colour);

/// Colours that change smoothly over the image, so that JPEG keeps them nearly as they are.
DecodedImage gradient_image(int64_t height, int64_t width, int64_t channels);

/// The bytes of a PNG or JPEG file; 2 and 4 channels have alpha, in a JPEG they are inks.
std::string png_file(const DecodedImage& image);
std::string jpeg_file(const DecodedImage& image, int quality = 95);

/// A PNG of 16-bit grey.
std::string wide_png_file(int64_t height, int64_t width, const std::vector<uint16_t>& grey);

/// A TIFF whose first channels are grey or colours, as `colours` says, and whose others are of no kind.
/// @param big of the kind that may pass 4 GiB.
std::string tiff_file(const DecodedImage& image, int64_t colours, bool big = false);

/// A PNG or JPEG file that says by EXIF how it is stored, 1 to 8.
std::string with_orientation(const std::string& file, int orientation);

/// A file's bytes as the decoders take them; `file` must outlive the result.
std::span<const uint8_t> bytes_of(const std::string& file);

}  // namespace autotrain::test
