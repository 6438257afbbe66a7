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

bool is_jpeg(std::span<const uint8_t> file);
ImageSize read_jpeg_size(std::span<const uint8_t> file, const std::string& where);
DecodedImage decode_jpeg(std::span<const uint8_t> file, const std::string& where, ImageSize least);

bool is_png(std::span<const uint8_t> file);
ImageSize read_png_size(std::span<const uint8_t> file, const std::string& where);
DecodedImage decode_png(std::span<const uint8_t> file, const std::string& where);

}  // namespace autotrain
