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
      {"Text", "GIF89a and so on", "is neither a JPEG nor a PNG file"},
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
    EXPECT_LE(difference, expected.name.ends_with(".png") ? 0 : 1) << expected.name;
  }
}

}  // namespace
}  // namespace autotrain
