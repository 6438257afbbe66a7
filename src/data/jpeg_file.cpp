#include <algorithm>
#include <cstdio>  // jpeglib.h needs FILE
#include <string_view>

#include <jpeglib.h>

#include <jerror.h>

#include "base/text.h"
#include "base/units.h"
#include "data/image_codec.h"

namespace autotrain {
namespace {

// Every block of 8 × 8 pixels has at least one bit in a Huffman-coded file.
constexpr int64_t kMostPixelsPerByte = int64_t{8} * 64;
// A file may have any number of scans over the whole image; encoders write about ten.
constexpr int kMostScans = 200;

[[noreturn]] void escape_from(j_common_ptr info) {
  auto* const escape = static_cast<Escape*>(info->client_data);
  static_assert(JMSG_LENGTH_MAX <= sizeof(escape->message));
  info->err->format_message(info, escape->message.data());
  std::longjmp(escape->place, 1);
}

// Warnings about headers and about stray bytes between segments leave the pixels whole.
bool harmless(int code) {
  return code == JWRN_ADOBE_XFORM || code == JWRN_EXTRANEOUS_DATA || code == JWRN_JFIF_MAJOR ||
         code == JWRN_BOGUS_ICC;
}

void judge_message(j_common_ptr info, int level) {
  if (level < 0 && !harmless(info->err->msg_code)) escape_from(info);
}

void limit_scans(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMostScans) return;
  auto* const escape = static_cast<Escape*>(info->client_data);
  std::snprintf(escape->message.data(), escape->message.size(), "more than %d scans", kMostScans);
  std::longjmp(escape->place, 1);
}

// A JPEG file whose header has been read.
class Decompressor {
 public:
  Decompressor(std::span<const uint8_t> file, const std::string& where) : where_(where) {
    info_.err = jpeg_std_error(&errors_);
    info_.client_data = &escape_;
    errors_.error_exit = escape_from;
    errors_.emit_message = judge_message;
    errors_.output_message = [](j_common_ptr) {};
    progress_.progress_monitor = limit_scans;
    try {
      step([this, file] {
        jpeg_create_decompress(&info_);
        info_.progress = &progress_;
        jpeg_mem_src(&info_, file.data(), file.size());
        jpeg_read_header(&info_, TRUE);
      });
      check_image_size(size(), static_cast<int64_t>(file.size()) * kMostPixelsPerByte, where);
      check_coding();
    } catch (...) {
      jpeg_destroy_decompress(&info_);
      throw;
    }
  }
  ~Decompressor() { jpeg_destroy_decompress(&info_); }
  Decompressor(const Decompressor&) = delete;
  Decompressor& operator=(const Decompressor&) = delete;

  ImageSize size() const { return {info_.image_height, info_.image_width}; }

  ImageFacts facts() const {
    const bool inks = has_inks();
    return {.format = "JPEG",
            .size = size(),
            .channels = inks                                      ? 4
                        : info_.jpeg_color_space == JCS_GRAYSCALE ? 1
                                                                  : 3,
            .unmarked_inks = inks && info_.saw_Adobe_marker == FALSE};
  }

  DecodedImage decode(int eighths) {
    step([this, eighths] { start(eighths); });
    DecodedImage image{.size = {info_.output_height, info_.output_width},
                       .channels = info_.output_components,
                       .full_size = size(),
                       .overhang = {.bottom = overhang(info_.output_height, info_.image_height, eighths),
                                    .right = overhang(info_.output_width, info_.image_width, eighths)}};
    image.pixels.resize(static_cast<size_t>(image.size.height * image.size.width * image.channels));
    step([this, out = image.pixels.data()] { read_rows(out); });
    return image;
  }

 private:
  template <class Calls>
  void step(Calls calls) {
    escape_.run(where_, "JPEG", calls);
  }

  // libjpeg rounds a scaled image's sides up: its last row and column may show little of the image.
  static double overhang(JDIMENSION pixels, JDIMENSION full, int eighths) {
    return pixels - full * eighths / 8.0;
  }

  bool has_inks() const { return info_.jpeg_color_space == JCS_CMYK || info_.jpeg_color_space == JCS_YCCK; }

  void check_coding() const {
    // With arithmetic coding a file's size would say nothing about what its header may promise.
    if (info_.arith_code) fail_image(where_, "is a JPEG with arithmetic coding, which is not read");
    if (info_.jpeg_color_space == JCS_UNKNOWN) {
      fail_image(where_, cat("is a JPEG of ", info_.num_components, " components of unknown meaning"));
    }
  }

  void start(int eighths) {
    info_.scale_num = static_cast<unsigned>(eighths);
    info_.scale_denom = 8;
    info_.dct_method = JDCT_ISLOW;
    const bool inks = has_inks();
    const bool grey = info_.jpeg_color_space == JCS_GRAYSCALE;
    info_.out_color_space = inks ? JCS_CMYK : grey ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_start_decompress(&info_);
  }

  void read_rows(uint8_t* out) {
    const size_t row_bytes = size_t{info_.output_width} * static_cast<size_t>(info_.output_components);
    while (info_.output_scanline < info_.output_height) {
      JSAMPROW row = out + info_.output_scanline * row_bytes;
      jpeg_read_scanlines(&info_, &row, 1);
    }
    jpeg_finish_decompress(&info_);  // reads up to the end marker
  }

  const std::string& where_;
  jpeg_decompress_struct info_{};
  jpeg_error_mgr errors_{};
  jpeg_progress_mgr progress_{};
  Escape escape_{};
};

// libjpeg-turbo has vector code for these scales and the whole. Measured on an image of 368 × 496 pixels, 2/8
// took 0.64 ms, 4/8 0.69 and 8/8 0.84; the ones between took longer than the next of these (5/8 1.00,
// 7/8 1.36).
int eighths_for(const ImageSize& full, const ImageSize& least) {
  for (const int n : {1, 2, 4}) {
    if (ceil_div(full.height * n, 8) >= least.height && ceil_div(full.width * n, 8) >= least.width) return n;
  }
  return 8;
}

// As the segment of EXIF says, which stands before the pixels.
int orientation_of(std::span<const uint8_t> file) {
  constexpr uint8_t kExif = 0xe1, kScan = 0xda, kEnd = 0xd9;
  constexpr std::string_view kName("Exif\0\0", 6);
  for (size_t at = 2; at + 4 <= file.size() && file[at] == 0xff;) {
    const uint8_t marker = file[at + 1];
    const size_t length = size_t{file[at + 2]} << 8 | file[at + 3];
    if (marker == kScan || marker == kEnd || at + 2 + length > file.size()) break;
    if (marker == 0xff) {
      ++at;  // fills up
      continue;
    }
    const std::span<const uint8_t> content = file.subspan(at + 4, std::max<size_t>(length, 2) - 2);
    if (marker == kExif && content.size() > kName.size() &&
        std::equal(kName.begin(), kName.end(), content.begin())) {
      return orientation_of_exif(content.subspan(kName.size()));
    }
    at += 2 + length;
  }
  return 1;
}

// Four inks, stored inverted as every writer has done since Adobe's.
void inks_to_colours(DecodedImage& image) {
  const size_t pixels = image.pixels.size() / 4;
  uint8_t* const bytes = image.pixels.data();
  for (size_t i = 0; i < pixels; ++i) {
    const uint8_t* const inks = bytes + 4 * i;
    const uint32_t black = inks[3];
    for (size_t c = 0; c < 3; ++c) bytes[3 * i + c] = static_cast<uint8_t>((inks[c] * black + 127) / 255);
  }
  image.pixels.resize(pixels * 3);
  image.channels = 3;
}

}  // namespace

bool is_jpeg(std::span<const uint8_t> file) {
  return file.size() >= 3 && file[0] == 0xff && file[1] == 0xd8 && file[2] == 0xff;
}

ImageFacts read_jpeg_facts(std::span<const uint8_t> file, const std::string& where) {
  ImageFacts facts = Decompressor(file, where).facts();
  facts.orientation = orientation_of(file);
  return facts;
}

DecodedImage decode_jpeg(std::span<const uint8_t> file, const std::string& where, ImageSize least) {
  Decompressor decompressor(file, where);
  DecodedImage image = decompressor.decode(eighths_for(decompressor.size(), least));
  if (image.channels == 4) inks_to_colours(image);
  return image;
}

}  // namespace autotrain
