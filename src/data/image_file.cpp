#include "data/image_file.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "autotrain/error.h"
#include "base/text.h"
#include "data/image_codec.h"

namespace autotrain {
namespace {

constexpr int64_t kMostPixels = int64_t{1} << 28;

struct Beginning {
  std::string_view bytes;
  size_t at;
  const char* format;
};

// Formats that are not read, by what their files begin with.
constexpr std::array<Beginning, 15> kOtherFormats = {
    {{"GIF8", 0, "a GIF"},
     {"ftypavif", 4, "an AVIF"},
     {"ftypheic", 4, "a HEIC"},
     {"ftypmif1", 4, "a HEIC"},
     {"ftypheix", 4, "a HEIC"},
     {std::string_view("\0\0\0\x0cjP  ", 8), 0, "a JPEG 2000"},
     {"\xff\x0a", 0, "a JPEG XL"},
     {std::string_view("\0\0\0\x0cJXL ", 8), 0, "a JPEG XL"},
     {"DICM", 128, "a DICOM"},
     {"8BPS", 0, "a Photoshop"},
     {"<svg", 0, "an SVG"},
     {"<?xml", 0, "an XML"},
     {"%PDF", 0, "a PDF"},
     {"<!DOCTYPE html", 0, "an HTML"},
     {"<html", 0, "an HTML"}}};

[[noreturn]] void fail_format(std::span<const uint8_t> file, const std::string& where) {
  if (file.empty()) fail_image(where, "the file is empty");
  const std::string_view bytes(reinterpret_cast<const char*>(file.data()), file.size());
  const auto* const other = std::ranges::find_if(kOtherFormats, [bytes](const Beginning& beginning) {
    return bytes.size() > beginning.at && bytes.substr(beginning.at).starts_with(beginning.bytes);
  });
  throw Error(ExitCode::kBadData, where,
              other != kOtherFormats.end()
                  ? cat("is ", other->format, " file, which is not read")
                  : std::string("is neither a JPEG nor a PNG, WebP, TIFF or BMP file"),
              "convert it to PNG or JPEG, or remove it");
}

// A format that is read.
struct Codec {
  bool (*is)(std::span<const uint8_t> file);
  ImageFacts (*facts)(std::span<const uint8_t> file, const std::string& where);
  DecodedImage (*decode)(std::span<const uint8_t> file, const std::string& where, ImageSize least,
                         int64_t bits);
};

const Codec& codec_of(std::span<const uint8_t> file, const std::string& where) {
  using File = std::span<const uint8_t>;
  static const std::array codecs = {
      Codec{is_jpeg, read_jpeg_facts,
            [](File f, const std::string& w, ImageSize least, int64_t) { return decode_jpeg(f, w, least); }},
      Codec{is_png, read_png_facts,
            [](File f, const std::string& w, ImageSize, int64_t bits) { return decode_png(f, w, bits); }},
      Codec{is_webp, read_webp_facts,
            [](File f, const std::string& w, ImageSize, int64_t) { return decode_webp(f, w); }},
      Codec{is_tiff, read_tiff_facts,
            [](File f, const std::string& w, ImageSize, int64_t bits) { return decode_tiff(f, w, bits); }},
      Codec{is_bmp, read_bmp_facts,
            [](File f, const std::string& w, ImageSize, int64_t) { return decode_bmp(f, w); }},
  };
  const auto* const codec = std::ranges::find_if(codecs, [file](const Codec& c) { return c.is(file); });
  if (codec == codecs.end()) fail_format(file, where);
  return *codec;
}

constexpr bool lies_down(int orientation) {
  return orientation >= 5;
}

ImageSize turned(const ImageSize& size, int orientation) {
  return lies_down(orientation) ? ImageSize{size.width, size.height} : size;
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

ImageFacts read_image_facts(std::span<const uint8_t> file, const std::string& where) {
  return codec_of(file, where).facts(file, where);
}

ImageSize read_image_size(std::span<const uint8_t> file, const std::string& where, bool upright) {
  const ImageFacts facts = read_image_facts(file, where);
  return turned(facts.size, upright ? facts.orientation : 1);
}

DecodedImage decode_image(std::span<const uint8_t> file, const std::string& where, ImageSize least,
                          const ImageReading& reading) {
  const Codec& codec = codec_of(file, where);
  const int orientation = reading.upright ? codec.facts(file, where).orientation : 1;
  DecodedImage image = codec.decode(file, where, turned(least, orientation), reading.bits);
  settle_alpha(image, reading.alpha);
  turn_upright(image, orientation);
  return image;
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
