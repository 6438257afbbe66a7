#include "data/image_file.h"

#include <cstdlib>

#include "checkpoint/safetensors.h"
#include "support/images.h"
#include "support/support.h"

namespace autotrain {
namespace {

using test::bytes_of;
using test::gradient_image;
using test::jpeg_file;
using test::png_file;

int largest_difference(const DecodedImage& a, const DecodedImage& b) {
  EXPECT_EQ(a.pixels.size(), b.pixels.size());
  int largest = 0;
  for (size_t i = 0; i < a.pixels.size(); ++i)
    largest = std::max(largest, std::abs(a.pixels[i] - b.pixels[i]));
  return largest;
}

TEST(ImageFile, APngComesBackAsItWas) {
  for (const int64_t channels : {1, 3}) {
    const DecodedImage image = gradient_image(13, 21, channels);
    const std::string file = png_file(image);
    const DecodedImage decoded = decode_image(bytes_of(file), "x.png");
    EXPECT_EQ(decoded.size, image.size);
    EXPECT_EQ(decoded.full_size, image.size);
    EXPECT_EQ(decoded.channels, channels);
    EXPECT_EQ(decoded.pixels, image.pixels);
    EXPECT_EQ(read_image_size(bytes_of(file), "x.png"), image.size);
  }
}

TEST(ImageFile, AJpegComesBackNearlyAsItWas) {
  for (const int64_t channels : {1, 3}) {
    const DecodedImage image = gradient_image(50, 41, channels);
    const std::string file = jpeg_file(image);
    const DecodedImage decoded = decode_image(bytes_of(file), "x.jpg");
    EXPECT_EQ(decoded.size, image.size);
    EXPECT_EQ(decoded.channels, channels);
    EXPECT_LE(largest_difference(decoded, image), 6);
    EXPECT_EQ(read_image_size(bytes_of(file), "x.jpg"), image.size);
  }
}

TEST(ImageFile, InksBecomeColours) {
  // Inverted inks: no cyan, all magenta and yellow, no black is red.
  const std::string file = jpeg_file(test::plain_image(8, 8, {255, 0, 0, 255}));
  const DecodedImage decoded = decode_image(bytes_of(file), "x.jpg");
  EXPECT_EQ(decoded.channels, 3);
  EXPECT_LE(largest_difference(decoded, test::plain_image(8, 8, {255, 0, 0})), 3);
}

TEST(ImageFile, AJpegIsDecodedAtTheSmallestScaleThatSuffices) {
  const DecodedImage image = gradient_image(200, 331, 3);
  const std::string file = jpeg_file(image);
  const auto size = [&](int64_t height, int64_t width) {
    const DecodedImage decoded = decode_image(bytes_of(file), "x.jpg", {height, width});
    EXPECT_EQ(decoded.full_size, image.size);
    // The smaller image shows the same: its middle has the colour of the whole one's middle.
    const auto middle = [](const DecodedImage& i, size_t c) {
      const int64_t at = i.size.height / 2 * i.size.width + i.size.width / 2;
      return static_cast<int>(i.pixels[static_cast<size_t>(3 * at) + c]);
    };
    for (size_t c = 0; c < 3; ++c) EXPECT_NEAR(middle(decoded, c), middle(image, c), 5);
    return decoded.size;
  };
  EXPECT_EQ(size(25, 41), (ImageSize{25, 42}));
  EXPECT_EQ(size(25, 42), (ImageSize{25, 42}));
  EXPECT_EQ(size(26, 42), (ImageSize{50, 83}));
  EXPECT_EQ(size(1, 166), (ImageSize{100, 166}));
  EXPECT_EQ(size(1, 167), image.size);
  EXPECT_EQ(size(900, 900), image.size) << "nothing is enlarged";
}

TEST(ImageFile, ChannelsAreRepeatedOrWeighed) {
  const DecodedImage grey = with_channels(test::plain_image(2, 3, {255, 0, 0}), 1);
  EXPECT_EQ(grey.pixels, std::vector<uint8_t>(6, 76));  // 0.299 × 255
  EXPECT_EQ(with_channels(grey, 3).pixels, std::vector<uint8_t>(18, 76));
  EXPECT_EQ(with_channels(test::plain_image(1, 1, {255, 255, 255}), 1).pixels[0], 255);
}

// Two pixels side by side.
DecodedImage pair_of(const std::vector<uint8_t>& left, const std::vector<uint8_t>& right) {
  DecodedImage image = test::plain_image(1, 2, left);
  std::ranges::copy(right, image.pixels.begin() + static_cast<int64_t>(left.size()));
  return image;
}

using Pixels = std::vector<uint8_t>;

Pixels read_with(const DecodedImage& image, AlphaUse alpha) {
  return decode_image(bytes_of(png_file(image)), "x.png", kFullSize, {.alpha = alpha}).pixels;
}

TEST(ImageFile, APictureInAlphaIsSeen) {
  const DecodedImage black = pair_of({0, 0, 0, 255}, {0, 0, 0, 0});
  EXPECT_EQ(read_with(black, AlphaUse::kAuto), (Pixels{0, 0, 0, 255, 255, 255}));
  EXPECT_EQ(read_with(black, AlphaUse::kWhite), (Pixels{0, 0, 0, 255, 255, 255}));
  EXPECT_EQ(read_with(black, AlphaUse::kBlack), Pixels(6, 0));
  EXPECT_EQ(read_with(black, AlphaUse::kDrop), Pixels(6, 0));
  const DecodedImage white = pair_of({250, 250, 255, 255}, {9, 9, 9, 0});
  EXPECT_EQ(read_with(white, AlphaUse::kAuto), (Pixels{250, 250, 255, 0, 0, 0})) << "lost on white";
  EXPECT_EQ(read_with(white, AlphaUse::kDrop), (Pixels{250, 250, 255, 9, 9, 9}));
  const DecodedImage half = pair_of({100, 128}, {100, 255});  // grey
  EXPECT_EQ(read_with(half, AlphaUse::kWhite), (Pixels{177, 100}));
}

TEST(ImageFile, AlphaThatIsTheSameEverywhereIsNoPicture) {
  for (const uint8_t alpha : std::initializer_list<uint8_t>{0, 128, 255}) {
    const DecodedImage image = pair_of({10, 20, 30, alpha}, {40, 50, 60, alpha});
    for (const AlphaUse use : {AlphaUse::kAuto, AlphaUse::kWhite, AlphaUse::kBlack, AlphaUse::kDrop})
      EXPECT_EQ(read_with(image, use), (Pixels{10, 20, 30, 40, 50, 60}));
  }
}

TEST(ImageFile, SixteenBitsBecomeEightOfThoseThatAreUsed) {
  const std::string file = test::wide_png_file(1, 4, {0, 256, 2048, 4095});
  const auto read = [&](int64_t bits) {
    return decode_image(bytes_of(file), "x.png", kFullSize, {.bits = bits}).pixels;
  };
  EXPECT_EQ(read(16), (Pixels{0, 1, 8, 15}));
  EXPECT_EQ(read(12), (Pixels{0, 16, 128, 255}));
  EXPECT_EQ(read(10), (Pixels{0, 64, 255, 255}));
  EXPECT_EQ(decode_image(bytes_of(file), "x.png").largest, 4095);
  EXPECT_EQ(read_image_facts(bytes_of(file), "x.png").bits, 16);
}

TEST(ImageFile, ImagesAreTurnedAsTheirMetadataSay) {
  // Stored as  1 2 3   which each orientation turns so (TIFF 6.0, tag 274):
  //            4 5 6
  const DecodedImage stored{{1, 2, 3, 4, 5, 6}, {2, 3}, 1, {2, 3}};
  const std::vector<Pixels> upright = {{1, 2, 3, 4, 5, 6}, {3, 2, 1, 6, 5, 4}, {6, 5, 4, 3, 2, 1},
                                       {4, 5, 6, 1, 2, 3}, {1, 4, 2, 5, 3, 6}, {4, 1, 5, 2, 6, 3},
                                       {6, 3, 5, 2, 4, 1}, {3, 6, 2, 5, 1, 4}};
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const std::string file = test::with_orientation(png_file(stored), orientation);
    const DecodedImage image = decode_image(bytes_of(file), "x.png");
    const ImageSize size = orientation < 5 ? ImageSize{2, 3} : ImageSize{3, 2};
    EXPECT_EQ(image.pixels, upright[static_cast<size_t>(orientation - 1)]) << orientation;
    EXPECT_EQ(image.size, size);
    EXPECT_EQ(image.full_size, size);
    EXPECT_EQ(read_image_size(bytes_of(file), "x.png"), size);
    EXPECT_EQ(decode_image(bytes_of(file), "x.png", kFullSize, {.upright = false}).pixels, stored.pixels);
    EXPECT_EQ(read_image_size(bytes_of(file), "x.png", false), stored.size);
  }
  const std::string jpeg = test::with_orientation(jpeg_file(gradient_image(200, 331, 3)), 6);
  EXPECT_EQ(read_image_size(bytes_of(jpeg), "x.jpg"), (ImageSize{331, 200}));
  EXPECT_EQ(decode_image(bytes_of(jpeg), "x.jpg", {42, 25}).size, (ImageSize{42, 25})) << "as it is turned";
}

TEST(ImageFile, AnOrientationMayBeWrittenInAnyWholeNumber) {
  const std::string file = test::with_orientation(jpeg_file(gradient_image(20, 31, 3)), 6);
  const size_t entry = file.find(std::string("\x01\x12\0\x03", 4));
  for (const auto& [type, value] :
       {std::pair{'\x01', std::string("\x06\0\0\0", 4)}, {'\x04', std::string("\0\0\0\x06", 4)}}) {
    std::string other = file;
    other[entry + 3] = type;
    other.replace(entry + 8, 4, value);
    EXPECT_EQ(read_image_size(bytes_of(other), "x.jpg"), (ImageSize{31, 20})) << static_cast<int>(type);
  }
}

TEST(ImageFile, BandsOfATiffThatAreNoColoursAreLeftOutOrRefused) {
  const auto tiff = [](const std::vector<uint8_t>& bands, int64_t colours, bool big = false) {
    return test::tiff_file(test::plain_image(2, 1, bands), colours, big);
  };
  for (const bool big : {false, true}) {
    EXPECT_EQ(decode_image(bytes_of(tiff({10}, 1, big)), "x.tif").pixels, (Pixels{10, 10}));
    EXPECT_EQ(decode_image(bytes_of(tiff({10, 20, 30}, 3, big)), "x.tif").pixels,
              (Pixels{10, 20, 30, 10, 20, 30}));
  }
  EXPECT_EQ(read_image_facts(bytes_of(tiff({10, 20, 30}, 3)), "x.tif").unread_bands, 0);
  const std::string infrared = tiff({10, 20, 30, 40}, 3), ignored = tiff({10, 20}, 1);
  EXPECT_EQ(decode_image(bytes_of(infrared), "x.tif").pixels, (Pixels{10, 20, 30, 10, 20, 30}));
  EXPECT_EQ(read_image_facts(bytes_of(infrared), "x.tif").unread_bands, 1);
  EXPECT_EQ(decode_image(bytes_of(ignored), "x.tif").pixels, (Pixels{10, 10}));
  EXPECT_EQ(read_image_facts(bytes_of(ignored), "x.tif").unread_bands, 1);
  for (const std::vector<uint8_t>& bands : {std::vector<uint8_t>{1, 2, 3}, {1, 2, 3, 4, 5}}) {
    const Error error =
        test::expect_error(ExitCode::kBadData, [&] { decode_image(bytes_of(tiff(bands, 1)), "x.tif"); });
    EXPECT_TRUE(test::holds(error.problem(), "bands that are not said to be colours"));
  }
}

TEST(ImageFile, BitmapsRunFromBelowInBlueGreenRed) {
  const auto header = [](char bits, char height, int32_t pixels) {
    std::string bytes = "BM" + std::string(52, '\0');
    bytes[10] = static_cast<char>(pixels), bytes[14] = 40, bytes[18] = 2, bytes[22] = height;
    if (height < 0) bytes[23] = bytes[24] = bytes[25] = -1;
    bytes[26] = 1, bytes[28] = bits;
    return bytes;
  };
  const std::string colours = header(24, 2, 54) + std::string("\1\2\3\4\5\6\0\0\7\x8\x9\xa\xb\xc\0\0", 16);
  EXPECT_EQ(decode_image(bytes_of(colours), "x.bmp").pixels, (Pixels{9, 8, 7, 12, 11, 10, 3, 2, 1, 6, 5, 4}));
  const std::string down = header(24, -1, 54) + std::string("\1\2\3\4\5\6\0\0", 8);
  EXPECT_EQ(decode_image(bytes_of(down), "x.bmp").pixels, (Pixels{3, 2, 1, 6, 5, 4}));
  const std::string two = header(1, 1, 62) + std::string("\x9\x9\x9\0\xf0\xf0\xf0\0\x40\0\0\0", 12);
  EXPECT_EQ(decode_image(bytes_of(two), "x.bmp").pixels, (Pixels{9, 240})) << "a grey palette";
  const Error error =
      test::expect_error(ExitCode::kBadData, [&] { decode_image(bytes_of(colours.substr(0, 60)), "x.bmp"); });
  EXPECT_TRUE(test::holds(error.problem(), "ends early"));
}

// Big-endian numbers of a JPEG's frame header or a PNG's first chunk, replaced.
std::string with_sizes(std::string file, uint32_t height, uint32_t width) {
  const auto put = [&](size_t at, uint32_t value, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) file[at + i] = static_cast<char>(value >> 8 * (bytes - 1 - i));
  };
  const size_t frame = file.find("\xff\xc0");
  if (file[1] == 'P') {
    put(16, width, 4);
    put(20, height, 4);
  } else {
    put(frame + 5, height, 2);
    put(frame + 7, width, 2);
  }
  return file;
}

struct DamagedImage {
  const char* name;
  std::string file;
  std::string message;
};

std::vector<DamagedImage> damages() {
  const std::string jpeg = jpeg_file(gradient_image(64, 64, 3)), png = png_file(gradient_image(64, 64, 3));
  std::string bad_code = jpeg, bad_sum = png;
  bad_code.replace(jpeg.size() / 2, 40, 40, '\x7f');
  bad_sum[png.size() - 20] ^= 1;
  return {
      {"Empty", "", "the file is empty"},
      {"Text", "no picture at all", "is neither a JPEG nor a PNG, WebP, TIFF or BMP file"},
      {"Jp2", std::string("\0\0\0\x0cjP  \r\n\x87\n", 12), "is a JPEG 2000 file"},
      {"Gif", "GIF89a and so on", "is a GIF file, which is not read"},
      {"JpegCutInPixels", jpeg.substr(0, jpeg.size() * 3 / 4), "Premature end"},
      {"JpegCutAtItsEnd", jpeg.substr(0, jpeg.size() - 2), "Premature end"},
      {"JpegCutInHeader", jpeg.substr(0, 100), "damaged JPEG data"},
      {"JpegBadCode", bad_code, "damaged JPEG data"},
      {"JpegTooLong", with_sizes(jpeg, 65501, 8), "65500 pixels"},
      {"JpegTooLarge", with_sizes(jpeg, 60000, 60000), "in all"},
      {"JpegPromises", with_sizes(jpeg, 9000, 9000), "cannot hold"},
      {"JpegNoPixels", with_sizes(jpeg, 0, 64), "damaged JPEG data"},
      {"PngCutInPixels", png.substr(0, png.size() / 2), "the file ends early"},
      {"PngCutAtItsEnd", png.substr(0, png.size() - 12), "the file ends early"},
      {"PngCutInHeader", png.substr(0, 20), "inside its header"},
      {"PngBadSum", bad_sum, "damaged PNG data"},
      {"PngTooLong", with_sizes(png, 1, 65501), "1 × 65501 pixels; images may have 65500"},
      {"PngTooLarge", with_sizes(png, 65000, 65000), "in all"},
      {"PngLargerThanAnyNumber", with_sizes(png, 4294967286, 4294967282), "4294967286 × 4294967282 pixels"},
      {"PngPromises", with_sizes(png, 9000, 9000), "cannot hold"},
      {"PngNoPixels", with_sizes(png, 0, 64), "no pixels"}};
}

TEST(ImageFile, DamageIsBadDataThatNamesTheFile) {
  for (const DamagedImage& damage : damages()) {
    const Error error =
        test::expect_error(ExitCode::kBadData, [&] { decode_image(bytes_of(damage.file), "sample 7: x"); });
    EXPECT_TRUE(test::holds(error.problem(), damage.message)) << damage.name;
    EXPECT_EQ(error.where(), "sample 7: x") << damage.name;
    EXPECT_FALSE(error.hint().empty()) << damage.name;
  }
}

TEST(ImageFile, EveryCutAndEveryFlippedByteIsAnErrorOrAnImage) {
  for (const std::string& whole : {jpeg_file(gradient_image(17, 9, 3)), png_file(gradient_image(17, 9, 3))}) {
    for (size_t i = 0; i < whole.size(); ++i) {
      EXPECT_THROW(decode_image(bytes_of(whole.substr(0, i)), "x"), Error) << "cut at " << i;
      for (const int bit : {1, 128}) {
        std::string file = whole;
        file[i] = static_cast<char>(file[i] ^ bit);
        try {
          const DecodedImage image = decode_image(bytes_of(file), "x");
          EXPECT_EQ(image.pixels.size(),
                    static_cast<size_t>(image.size.height * image.size.width * image.channels));
        } catch (const Error& error) {
          EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(ExitCode::kBadData));
        }
      }
    }
  }
}

// Driven by tests/interop/pillow_test.py, which makes the files; alone it has nothing to compare.
TEST(Pillow, DecodesAlike) {
  const char* const folder = std::getenv("AUTOTRAIN_PILLOW_IMAGES");
  if (folder == nullptr) GTEST_SKIP() << "run by pillow_test.py";
  const std::filesystem::path path = folder;
  for (const NamedTensor& expected : read_safetensors(path / "expected.safetensors")) {
    const std::string file = test::slurp(path / expected.name);
    const DecodedImage image = decode_image(bytes_of(file), expected.name);
    const torch::Tensor pixels =
        torch::from_blob(const_cast<uint8_t*>(image.pixels.data()),
                         {image.size.height, image.size.width, image.channels}, torch::kUInt8);
    ASSERT_EQ(pixels.sizes(), expected.tensor.sizes()) << expected.name;
    const auto difference =
        (pixels.to(torch::kInt32) - expected.tensor.to(torch::kInt32)).abs().max().item<int64_t>();
    EXPECT_LE(difference, expected.name.ends_with(".jpg") ? 1 : 0) << expected.name;
  }
}

}  // namespace
}  // namespace autotrain
