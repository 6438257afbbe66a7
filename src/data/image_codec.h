#pragma once

#include "data/image_file.h"

// What the decoders of single formats share.
namespace autotrain {

[[noreturn]] void fail_image(const std::string& where, const std::string& what);

/// Refuses sizes that no buffer should be made for on a header's word.
/// @param most_pixels what a file of so many bytes can hold.
void check_image_size(const ImageSize& size, int64_t most_pixels, const std::string& where);

bool is_jpeg(std::span<const uint8_t> file);
ImageSize read_jpeg_size(std::span<const uint8_t> file, const std::string& where);
DecodedImage decode_jpeg(std::span<const uint8_t> file, const std::string& where, ImageSize least);

bool is_png(std::span<const uint8_t> file);
ImageSize read_png_size(std::span<const uint8_t> file, const std::string& where);
DecodedImage decode_png(std::span<const uint8_t> file, const std::string& where);

}  // namespace autotrain
