#include "support/images.h"

#include <png.h>
#include <zlib.h>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>

#include <jpeglib.h>

namespace autotrain::test {

DecodedImage plain_image(int64_t height, int64_t width, const std::vector<uint8_t>& colour) {
  const auto channels = static_cast<int64_t>(colour.size());
  DecodedImage image{.size = {height, width}, .channels = channels, .full_size = {height, width}};
  for (int64_t i = 0; i < height * width; ++i) {
    image.pixels.insert(image.pixels.end(), colour.begin(), colour.end());
  }
  return image;
}

DecodedImage gradient_image(int64_t height, int64_t width, int64_t channels) {
  DecodedImage image = plain_image(height, width, std::vector<uint8_t>(static_cast<size_t>(channels), 0));
  uint8_t* out = image.pixels.data();
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      for (int64_t c = 0; c < channels; ++c) {
        const int64_t along = c == 1 ? x * height : y * width;
        *out++ = static_cast<uint8_t>(40 + 60 * c % 90 + along * 120 / (height * width));
      }
    }
  }
  return image;
}

std::string png_file(const DecodedImage& image) {
  png_image header{};
  header.version = PNG_IMAGE_VERSION;
  header.width = static_cast<png_uint_32>(image.size.width);
  header.height = static_cast<png_uint_32>(image.size.height);
  header.format = (image.channels >= 3 ? PNG_FORMAT_FLAG_COLOR : 0u) |
                  (image.channels % 2 == 0 ? PNG_FORMAT_FLAG_ALPHA : 0u);
  png_alloc_size_t bytes = PNG_IMAGE_PNG_SIZE_MAX(header);
  std::string file(bytes, '\0');
  if (png_image_write_to_memory(&header, file.data(), &bytes, 0, image.pixels.data(), 0, nullptr) == 0) {
    throw std::runtime_error(header.message);
  }
  file.resize(bytes);
  return file;
}

namespace {

std::string big_endian(uint32_t number) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(number >> shift & 0xff);
  return bytes;
}

std::string chunk(const std::string& name, const std::string& content) {
  const std::string summed = name + content;
  const auto sum =
      ::crc32(0, reinterpret_cast<const Bytef*>(summed.data()), static_cast<uInt>(summed.size()));
  return big_endian(static_cast<uint32_t>(content.size())) + summed + big_endian(static_cast<uint32_t>(sum));
}

constexpr size_t kPngHeader = 33;  // signature and IHDR

}  // namespace

std::string wide_png_file(int64_t height, int64_t width, const std::vector<uint16_t>& grey) {
  std::string rows;
  for (int64_t y = 0; y < height; ++y) {
    rows += '\0';  // no filter
    for (int64_t x = 0; x < width; ++x) {
      const uint16_t value = grey[static_cast<size_t>(y * width + x)];
      rows += {static_cast<char>(value >> 8), static_cast<char>(value & 0xff)};
    }
  }
  std::string packed(::compressBound(rows.size()), '\0');
  uLongf bytes = packed.size();
  ::compress(reinterpret_cast<Bytef*>(packed.data()), &bytes, reinterpret_cast<const Bytef*>(rows.data()),
             rows.size());
  packed.resize(bytes);
  const std::string header = big_endian(static_cast<uint32_t>(width)) +
                             big_endian(static_cast<uint32_t>(height)) + std::string("\x10\0\0\0\0", 5);
  return "\x89PNG\r\n\x1a\n" + chunk("IHDR", header) + chunk("IDAT", packed) + chunk("IEND", "");
}

namespace {

std::string little_endian(uint64_t number, size_t bytes) {
  std::string written;
  for (size_t i = 0; i < bytes; ++i) written += static_cast<char>(number >> 8 * i & 0xff);
  return written;
}

}  // namespace

std::string tiff_file(const DecodedImage& image, int64_t colours, bool big) {
  constexpr uint64_t kShort = 3;
  const size_t width = big ? 8 : 4, header = big ? 16 : 8;  // of counts and places
  const auto bands = static_cast<uint64_t>(image.channels), more = bands - static_cast<uint64_t>(colours);
  std::string content(image.pixels.begin(), image.pixels.end()), entries;
  uint64_t count = 0;
  const auto add = [&](uint64_t tag, const std::vector<uint64_t>& values) {
    std::string numbers;
    for (const uint64_t value : values) numbers += little_endian(value, 2);
    if (numbers.size() > width) {
      content += numbers;
      numbers = little_endian(header + content.size() - numbers.size(), width);
    }
    numbers.resize(width);
    entries +=
        little_endian(tag, 2) + little_endian(kShort, 2) + little_endian(values.size(), width) + numbers;
    ++count;
  };
  add(256, {static_cast<uint64_t>(image.size.width)});
  add(257, {static_cast<uint64_t>(image.size.height)});
  add(258, std::vector<uint64_t>(bands, 8));
  add(259, {1});
  add(262, {colours == 1 ? 1u : 2u});
  add(273, {header});
  add(277, {bands});
  add(278, {static_cast<uint64_t>(image.size.height)});
  add(279, {image.pixels.size()});
  if (more > 0) add(338, std::vector<uint64_t>(more, 0));
  const std::string begin = big ? std::string("II+\0\x08\0\0\0", 8) : std::string("II*\0", 4);
  return begin + little_endian(header + content.size(), width) + content + little_endian(count, big ? 8 : 2) +
         entries + std::string(width, '\0');
}

std::string with_orientation(const std::string& file, int orientation) {
  const std::string exif = std::string("MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0", 19) +
                           static_cast<char>(orientation) + std::string(6, '\0');
  if (file[1] == 'P') return file.substr(0, kPngHeader) + chunk("eXIf", exif) + file.substr(kPngHeader);
  const std::string content = std::string("Exif\0\0", 6) + exif;
  const auto length = static_cast<char>(content.size() + 2);
  return file.substr(0, 2) + std::string("\xff\xe1\0", 3) + length + content + file.substr(2);
}

std::string jpeg_file(const DecodedImage& image, int quality) {
  jpeg_compress_struct info;
  jpeg_error_mgr errors;
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* buffer = nullptr;
  unsigned long bytes = 0;
  jpeg_mem_dest(&info, &buffer, &bytes);
  info.image_width = static_cast<JDIMENSION>(image.size.width);
  info.image_height = static_cast<JDIMENSION>(image.size.height);
  info.input_components = static_cast<int>(image.channels);
  info.in_color_space = image.channels == 3 ? JCS_RGB : image.channels == 4 ? JCS_CMYK : JCS_GRAYSCALE;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, quality, TRUE);
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    auto* row = const_cast<JSAMPROW>(image.pixels.data()) +
                info.next_scanline * static_cast<size_t>(image.size.width * image.channels);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  const std::string file(reinterpret_cast<const char*>(buffer), bytes);
  std::free(buffer);
  return file;
}

std::span<const uint8_t> bytes_of(const std::string& file) {
  return {reinterpret_cast<const uint8_t*>(file.data()), file.size()};
}

}  // namespace autotrain::test
