#pragma once

#include <array>
#include <csetjmp>
#include <type_traits>

#include "base/text.h"
#include "data/image_file.h"

// The decoders of single formats share these.
namespace autotrain {

[[noreturn]] void fail_image(const std::string& where, const std::string& what);

/// The most pixels that a side of an image may have: JPEG's own limit.
inline constexpr int64_t kLongestSide = 65500;

/// Refuses sizes that no buffer should be made for on a header's word.
/// @param most_pixels what a file of so many bytes can hold.
void check_image_size(const ImageSize& size, int64_t most_pixels, const std::string& where);

/// Where a decoder's library jumps to when it has an error to report: it must not return from the function
/// that it reports to. The jump goes over C frames only, to the `run` that called into the library.
struct Escape {
  std::jmp_buf place;
  std::array<char, 256> message;

  /// Runs C calls that may jump back here. Nothing with a destructor may live in `calls` or below it.
  /// @throws Error(kBadData) with `message`. @param format "JPEG", "PNG"
  template <class Calls>
  void run(const std::string& where, const char* format, Calls calls) {
    static_assert(std::is_trivially_destructible_v<Calls>);
    if (setjmp(place) == 0) {
      calls();
    } else {
      fail_image(where, cat("damaged ", format, " data: ", message.data()));
    }
  }
};

/// Of four channels that are red, green, blue and alpha, or two that are grey and alpha, one remains less.
void settle_alpha(DecodedImage& image, AlphaUse use);

/// Turns an image that is stored in an EXIF orientation upright.
void turn_upright(DecodedImage& image, int orientation);

/// The orientation in EXIF's bytes, which begin as a TIFF file does; 1 where they say none.
int orientation_of_exif(std::span<const uint8_t> exif);

// Decoders of single formats. Pixels come as they are stored: not turned, with alpha as a last channel.

bool is_jpeg(std::span<const uint8_t> file);
ImageFacts read_jpeg_facts(std::span<const uint8_t> file, const std::string& where);
DecodedImage decode_jpeg(std::span<const uint8_t> file, const std::string& where, ImageSize least);

bool is_png(std::span<const uint8_t> file);
ImageFacts read_png_facts(std::span<const uint8_t> file, const std::string& where);
DecodedImage decode_png(std::span<const uint8_t> file, const std::string& where, int64_t bits);

bool is_webp(std::span<const uint8_t> file);
ImageFacts read_webp_facts(std::span<const uint8_t> file, const std::string& where);
DecodedImage decode_webp(std::span<const uint8_t> file, const std::string& where);

bool is_tiff(std::span<const uint8_t> file);
ImageFacts read_tiff_facts(std::span<const uint8_t> file, const std::string& where);
DecodedImage decode_tiff(std::span<const uint8_t> file, const std::string& where, int64_t bits);

bool is_bmp(std::span<const uint8_t> file);
ImageFacts read_bmp_facts(std::span<const uint8_t> file, const std::string& where);
DecodedImage decode_bmp(std::span<const uint8_t> file, const std::string& where);

/// Eight bits of a value of 16, of which `bits` are used.
inline uint8_t high_bits(uint32_t value, int64_t bits) {
  const uint32_t eight = value >> (bits - 8);
  return static_cast<uint8_t>(eight < 255 ? eight : 255);
}

}  // namespace autotrain
