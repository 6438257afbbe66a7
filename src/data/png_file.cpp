#include <png.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <optional>

#include "base/text.h"
#include "base/units.h"
#include "data/image_codec.h"

namespace autotrain {
namespace {

constexpr std::array<uint8_t, 8> kSignature = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
constexpr int64_t kLargestDeflateRatio = 1032;       // no deflate stream expands further
constexpr png_alloc_size_t kLargestChunk = 8 << 20;  // of metadata, which is not used

// The fixed part of every PNG file: signature, then the chunk IHDR.
struct Header {
  ImageSize size;
  int64_t bits = 0;     // of a channel
  int64_t samples = 0;  // of a pixel
  bool palette = false;
};

int64_t big_endian(const uint8_t* bytes) {
  return int64_t{bytes[0]} << 24 | int64_t{bytes[1]} << 16 | int64_t{bytes[2]} << 8 | bytes[3];
}

constexpr uint8_t kPalette = 3;

Header read_header(std::span<const uint8_t> file, const std::string& where) {
  constexpr size_t kHeaderEnd = 33;
  if (file.size() < kHeaderEnd) fail_image(where, "the PNG file ends inside its header");
  const uint8_t* const bytes = file.data();
  if (std::memcmp(bytes + 12, "IHDR", 4) != 0) fail_image(where, "the PNG file does not begin with IHDR");
  constexpr std::array<int64_t, 7> kSamples = {1, 0, 3, 1, 2, 0, 4};  // of a pixel, by colour type
  const int64_t samples = bytes[25] < kSamples.size() ? kSamples[bytes[25]] : 0;
  const Header header{
      {big_endian(bytes + 20), big_endian(bytes + 16)}, bytes[24], samples, bytes[25] == kPalette};
  const int64_t bits_per_pixel = header.bits * samples;
  if (header.size.height == 0 || header.size.width == 0 || bits_per_pixel == 0) {
    fail_image(where, "the PNG header states no pixels");
  }
  const int64_t most_bits = static_cast<int64_t>(file.size()) * kLargestDeflateRatio * 8;
  check_image_size(header.size, most_bits / bits_per_pixel, where);
  return header;
}

// The content of the first chunk of that name; nothing where there is none.
std::optional<std::span<const uint8_t>> find_chunk(std::span<const uint8_t> file, const char* name) {
  constexpr size_t kAround = 12;  // length, name and checksum
  for (size_t at = kSignature.size(); at + kAround <= file.size();) {
    const auto length = static_cast<size_t>(big_endian(file.data() + at));
    if (length > file.size() - at - kAround) break;
    if (std::memcmp(file.data() + at + 4, name, 4) == 0) return file.subspan(at + 8, length);
    at += kAround + length;
  }
  return std::nullopt;
}

// Two bytes for each sample become one.
void narrow(DecodedImage& image, int64_t bits) {
  const auto channels = static_cast<size_t>(image.channels);
  const size_t samples = image.pixels.size() / 2;
  const bool alpha = channels % 2 == 0;
  uint32_t largest = 0;
  for (size_t i = 0; i < samples; ++i) {
    const uint32_t value = uint32_t{image.pixels[2 * i]} << 8 | image.pixels[2 * i + 1];
    const bool colour = !alpha || i % channels != channels - 1;
    if (colour) largest = std::max(largest, value);
    image.pixels[i] = high_bits(value, colour ? bits : 16);
  }
  image.pixels.resize(samples);
  image.largest = largest;
}

[[noreturn]] void escape_from(png_structp png, png_const_charp message) {
  auto* const escape = static_cast<Escape*>(png_get_error_ptr(png));
  std::snprintf(escape->message.data(), escape->message.size(), "%s", message);
  std::longjmp(escape->place, 1);
}

// The bytes of the file that remain to be read.
struct Source {
  const uint8_t* at;
  size_t bytes;
};

void read_source(png_structp png, png_bytep out, size_t count) {
  auto* const source = static_cast<Source*>(png_get_io_ptr(png));
  if (count > source->bytes) png_error(png, "the file ends early");
  std::memcpy(out, source->at, count);
  source->at += count;
  source->bytes -= count;
}

class Reader {
 public:
  Reader(std::span<const uint8_t> file, const std::string& where)
      : where_(where), source_{file.data(), file.size()} {
    // Warnings are about metadata; damaged pixels are errors.
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, &escape_, escape_from, [](auto...) {});
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
    if (info_ == nullptr) {
      png_destroy_read_struct(&png_, nullptr, nullptr);
      throw std::bad_alloc();
    }
  }
  ~Reader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  DecodedImage decode(const ImageSize& size, int64_t bits) {
    step([this] { start(); });
    DecodedImage image{.size = size, .channels = png_get_channels(png_, info_), .full_size = size};
    const bool wide = png_get_bit_depth(png_, info_) == 16;
    image.pixels.resize(static_cast<size_t>(size.height * size.width * image.channels * (wide ? 2 : 1)));
    const size_t row_bytes = png_get_rowbytes(png_, info_);
    if (row_bytes * static_cast<size_t>(size.height) != image.pixels.size()) {
      fail_image(where_, "the PNG file has several sizes");
    }
    step([this, &size, row_bytes, out = image.pixels.data()] { read_rows(out, size.height, row_bytes); });
    if (wide) narrow(image, bits);
    return image;
  }

 private:
  template <class Calls>
  void step(Calls calls) {
    escape_.run(where_, "PNG", calls);
  }

  void start() {
    png_set_user_limits(png_, kLongestSide, kLongestSide);
    png_set_chunk_malloc_max(png_, kLargestChunk);
    png_set_chunk_cache_max(png_, 64);
    png_set_read_fn(png_, &source_, read_source);
    png_read_info(png_, info_);
    png_set_expand(png_);  // palettes to colours, fewer than 8 bits to 8
    passes_ = png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
  }

  void read_rows(uint8_t* out, int64_t height, size_t row_bytes) {
    for (int pass = 0; pass < passes_; ++pass) {
      for (int64_t y = 0; y < height; ++y) {
        png_read_row(png_, out + static_cast<size_t>(y) * row_bytes, nullptr);
      }
    }
    png_read_end(png_, nullptr);
  }

  const std::string& where_;
  Source source_;
  Escape escape_{};
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  int passes_ = 0;
};

}  // namespace

bool is_png(std::span<const uint8_t> file) {
  return file.size() >= kSignature.size() && std::equal(kSignature.begin(), kSignature.end(), file.begin());
}

ImageFacts read_png_facts(std::span<const uint8_t> file, const std::string& where) {
  const Header header = read_header(file, where);
  const auto exif = find_chunk(file, "eXIf");
  return {.format = "PNG",
          .size = header.size,
          .channels = header.palette || header.samples >= 3 ? 3 : 1,
          .bits = header.bits,
          .alpha = header.samples % 2 == 0 || find_chunk(file, "tRNS").has_value(),
          .palette = header.palette,
          .orientation = exif ? orientation_of_exif(*exif) : 1};
}

DecodedImage decode_png(std::span<const uint8_t> file, const std::string& where, int64_t bits) {
  const Header header = read_header(file, where);
  return Reader(file, where).decode(header.size, bits);
}

}  // namespace autotrain
