#include <tiffio.h>

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string_view>

#include "autotrain/error.h"
#include "base/text.h"
#include "base/units.h"
#include "data/image_codec.h"

namespace autotrain {
namespace {

// Fax codes take next to nothing for a plain area, so that a short file may well be a large image.
constexpr int64_t kPlainTiffPixels = int64_t{1} << 24, kTiffPixelsPerByte = int64_t{1} << 16;
constexpr tmsize_t kLargestPiece = 512 * kMiB;  // that the library may ask for at once

// The file as libtiff reads it, and the first message that it had.
struct Memory {
  std::span<const uint8_t> file;
  uint64_t at = 0;
  std::array<char, 256> message = {};
};

tmsize_t read_memory(thandle_t handle, void* out, tmsize_t count) {
  auto* const memory = static_cast<Memory*>(handle);
  const uint64_t left = memory->at < memory->file.size() ? memory->file.size() - memory->at : 0;
  const auto bytes = static_cast<size_t>(std::min<uint64_t>(static_cast<uint64_t>(count), left));
  if (bytes > 0) std::memcpy(out, memory->file.data() + memory->at, bytes);
  memory->at += bytes;
  return static_cast<tmsize_t>(bytes);
}

toff_t seek_memory(thandle_t handle, toff_t offset, int whence) {
  auto* const memory = static_cast<Memory*>(handle);
  const uint64_t from = whence == SEEK_CUR ? memory->at : whence == SEEK_END ? memory->file.size() : 0;
  return memory->at = from + offset;
}

int keep_message(TIFF*, void* data, const char*, const char* format, va_list values) {
  auto* const memory = static_cast<Memory*>(data);
  if (memory->message[0] == '\0')
    std::vsnprintf(memory->message.data(), memory->message.size(), format, values);
  return 1;
}

// An opened file: its first page.
class TiffPage {
 public:
  TiffPage(std::span<const uint8_t> file, const std::string& where) : where_(where), memory_{file} {
    const std::unique_ptr<TIFFOpenOptions, void (*)(TIFFOpenOptions*)> options(TIFFOpenOptionsAlloc(),
                                                                               TIFFOpenOptionsFree);
    TIFFOpenOptionsSetMaxSingleMemAlloc(options.get(), kLargestPiece);
    TIFFOpenOptionsSetErrorHandlerExtR(options.get(), keep_message, &memory_);
    TIFFOpenOptionsSetWarningHandlerExtR(
        options.get(), [](TIFF*, void*, const char*, const char*, va_list) { return 1; }, nullptr);
    tiff_.reset(TIFFClientOpenExt(
        where.c_str(), "rm", &memory_, read_memory, [](thandle_t, void*, tmsize_t) -> tmsize_t { return 0; },
        seek_memory, [](thandle_t) { return 0; },
        [](thandle_t handle) -> toff_t { return static_cast<Memory*>(handle)->file.size(); }, nullptr,
        nullptr, options.get()));
    if (!tiff_) fail();
    read_header();
    check_image_size(size(), kPlainTiffPixels + static_cast<int64_t>(file.size()) * kTiffPixelsPerByte,
                     where);
  }

  ImageSize size() const { return {height_, width_}; }

  ImageFacts facts() const {
    return {.format = "TIFF",
            .size = size(),
            .channels = grey()                                  ? 1
                        : photometric_ == PHOTOMETRIC_SEPARATED ? 4
                                                                : 3,
            .bits = bits_,
            .alpha = alpha_,
            .palette = photometric_ == PHOTOMETRIC_PALETTE,
            .unread_bands = unread_bands(),
            .orientation = orientation_ >= 1 && orientation_ <= 8 ? orientation_ : 1};
  }

  DecodedImage decode(int64_t bits) {
    check_kind();
    return bits_ == 16 ? decode_wide(bits) : decode_bytes();
  }

 private:
  struct Close {
    void operator()(TIFF* tiff) const { TIFFClose(tiff); }
  };

  [[noreturn]] void fail() const {
    const char* const message = memory_.message.data();
    fail_image(where_, cat("damaged TIFF data: ", *message != '\0' ? message : "the header cannot be read"));
  }

  [[noreturn]] void refuse(const std::string& what,
                           const char* cure = "convert it to PNG, or remove it") const {
    throw Error(ExitCode::kBadData, where_, cat("is a TIFF ", what, ", which is not read"), cure);
  }

  uint16_t field(uint32_t tag) {
    uint16_t value = 0;
    TIFFGetFieldDefaulted(tiff_.get(), tag, &value);
    return value;
  }

  void read_header() {
    uint32_t height = 0, width = 0;
    TIFFGetField(tiff_.get(), TIFFTAG_IMAGELENGTH, &height);
    TIFFGetField(tiff_.get(), TIFFTAG_IMAGEWIDTH, &width);
    height_ = height, width_ = width;
    if (height_ == 0 || width_ == 0) fail();
    bits_ = field(TIFFTAG_BITSPERSAMPLE);
    samples_ = field(TIFFTAG_SAMPLESPERPIXEL);
    photometric_ = field(TIFFTAG_PHOTOMETRIC);
    orientation_ = field(TIFFTAG_ORIENTATION);
    uint16_t count = 0;
    const uint16_t* kinds = nullptr;
    if (TIFFGetField(tiff_.get(), TIFFTAG_EXTRASAMPLES, &count, &kinds) == 1 && count > 0)
      alpha_ = kinds[0] == EXTRASAMPLE_ASSOCALPHA || kinds[0] == EXTRASAMPLE_UNASSALPHA;
  }

  bool grey() const {
    return photometric_ == PHOTOMETRIC_MINISBLACK || photometric_ == PHOTOMETRIC_MINISWHITE;
  }

  int64_t unread_bands() const {
    const int64_t colours = grey() || photometric_ == PHOTOMETRIC_PALETTE ? 1
                            : photometric_ == PHOTOMETRIC_SEPARATED       ? 4
                                                                          : 3;
    return std::max<int64_t>(0, samples_ - colours - (alpha_ ? 1 : 0));
  }

  void check_kind() {
    if (field(TIFFTAG_SAMPLEFORMAT) != SAMPLEFORMAT_UINT)
      refuse(cat("whose samples are no whole numbers from 0 on (", bits_, " bits each)"));
    if (bits_ != 16) {
      std::array<char, 1024> why = {};
      if (bits_ > 8 || TIFFRGBAImageOK(tiff_.get(), why.data()) == 0)
        refuse(cat("of ", samples_, " samples of ", bits_, " bits"));
      // One beside grey is alpha that was not called so; more are bands of which none is the image.
      if (grey() && unread_bands() > 1)
        refuse(cat("of ", samples_, " bands that are not said to be colours"),
               "write the bands that the model is to see as grey or RGB");
      return;
    }
    const bool known = photometric_ == PHOTOMETRIC_MINISBLACK || photometric_ == PHOTOMETRIC_RGB;
    const int64_t colours = grey() ? 1 : 3;
    if (!known || samples_ != colours + (alpha_ ? 1 : 0) || TIFFIsTiled(tiff_.get()) != 0 ||
        (samples_ > 1 && field(TIFFTAG_PLANARCONFIG) != PLANARCONFIG_CONTIG)) {
      refuse("of 16 bits that is no rows of grey or RGB");
    }
  }

  DecodedImage decode_wide(int64_t bits) {
    DecodedImage image{.size = size(), .channels = samples_, .full_size = size()};
    image.pixels.resize(static_cast<size_t>(height_ * width_ * samples_));
    std::vector<uint16_t> row(static_cast<size_t>(TIFFScanlineSize64(tiff_.get()) / 2 + 1));
    const auto samples = static_cast<size_t>(width_ * samples_), each = static_cast<size_t>(samples_);
    uint32_t largest = 0;
    uint8_t* to = image.pixels.data();
    for (int64_t y = 0; y < height_; ++y) {
      if (row.size() < samples || TIFFReadScanline(tiff_.get(), row.data(), static_cast<uint32_t>(y)) != 1) {
        fail();
      }
      for (size_t i = 0; i < samples; ++i) {
        const bool colour = !alpha_ || i % each != each - 1;
        if (colour) largest = std::max<uint32_t>(largest, row[i]);
        *to++ = high_bits(row[i], colour ? bits : 16);
      }
    }
    image.largest = largest;
    return image;
  }

  // The library's own way to colours, of all kinds that it has.
  DecodedImage decode_bytes() {
    std::vector<uint32_t> packed(static_cast<size_t>(height_ * width_));
    // Not turned here, but as those of other formats are.
    TIFFSetField(tiff_.get(), TIFFTAG_ORIENTATION, ORIENTATION_TOPLEFT);
    if (TIFFReadRGBAImageOriented(tiff_.get(), static_cast<uint32_t>(width_), static_cast<uint32_t>(height_),
                                  packed.data(), ORIENTATION_TOPLEFT, 1) != 1) {
      fail();
    }
    const int64_t colours = grey() ? 1 : 3;
    DecodedImage image{.size = size(), .channels = colours + (alpha_ ? 1 : 0), .full_size = size()};
    image.pixels.reserve(packed.size() * static_cast<size_t>(image.channels));
    for (const uint32_t pixel : packed) {
      const uint32_t alpha = alpha_ ? TIFFGetA(pixel) : 255;
      for (int64_t c = 0; c < colours; ++c) {
        const uint32_t laid = pixel >> (8 * c) & 0xff;  // on black
        const uint32_t value = alpha == 0 ? laid : std::min<uint32_t>(255, (laid * 255 + alpha / 2) / alpha);
        image.pixels.push_back(static_cast<uint8_t>(value));
      }
      if (alpha_) image.pixels.push_back(static_cast<uint8_t>(alpha));
    }
    return image;
  }

  const std::string& where_;
  Memory memory_;
  std::unique_ptr<TIFF, Close> tiff_;
  int64_t height_ = 0, width_ = 0, bits_ = 0, samples_ = 0;
  int photometric_ = 0, orientation_ = 1;
  bool alpha_ = false;
};

}  // namespace

bool is_tiff(std::span<const uint8_t> file) {
  constexpr std::array<std::string_view, 4> kBeginnings = {
      // the last two of files that may pass 4 GiB
      {{"II*\0", 4}, {"MM\0*", 4}, {"II+\0", 4}, {"MM\0+", 4}}};
  if (file.size() < 8) return false;
  const std::string_view begin(reinterpret_cast<const char*>(file.data()), 4);
  return std::ranges::find(kBeginnings, begin) != kBeginnings.end();
}

ImageFacts read_tiff_facts(std::span<const uint8_t> file, const std::string& where) {
  return TiffPage(file, where).facts();
}

DecodedImage decode_tiff(std::span<const uint8_t> file, const std::string& where, int64_t bits) {
  return TiffPage(file, where).decode(bits);
}

}  // namespace autotrain
