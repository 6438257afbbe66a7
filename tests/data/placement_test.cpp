#include "data/placement.h"

#include <cmath>

#include "support/images.h"
#include "support/support.h"

namespace autotrain {
namespace {

void expect_region(const Region& region, double top, double left, double height, double width) {
  EXPECT_NEAR(region.top, top, 1e-9);
  EXPECT_NEAR(region.left, left, 1e-9);
  EXPECT_NEAR(region.height, height, 1e-9);
  EXPECT_NEAR(region.width, width, 1e-9);
}

TEST(Placement, CoveringTakesTheLargestMiddlePart) {
  expect_region(covering({100, 300}, {0, 0, 50, 50}).region, 0, 100, 100, 100);
  expect_region(covering({300, 100}, {0, 0, 50, 100}).region, 125, 0, 50, 100);
  expect_region(covering({300, 100}, {0, 0, 50, 100}, 1).region, 250, 0, 50, 100);
}

TEST(Placement, LetterboxedKeepsTheShapeInTheMiddle) {
  const Placement wide = letterboxed({100, 300}, {90, 60});
  EXPECT_EQ(wide.box.top, 35);
  EXPECT_EQ(wide.box.left, 0);
  EXPECT_EQ(wide.box.height, 20);
  EXPECT_EQ(wide.box.width, 60);
  EXPECT_EQ(letterboxed({1, 10000}, {50, 50}).box.height, 1) << "never empty";
}

TEST(Placement, CropsHaveTheAreaAndAspectAskedFor) {
  double least = 1, most = 0, narrowest = 10, widest = 0;
  for (uint64_t key = 0; key < 3000; ++key) {
    Random random(key);
    const Region crop = draw_crop({400, 500}, {0.2, 0.5}, random);
    EXPECT_TRUE(crop.top >= 0 && crop.left >= 0 && crop.top + crop.height <= 400 + 1e-9 &&
                crop.left + crop.width <= 500 + 1e-9);
    const double share = crop.height * crop.width / (400 * 500), aspect = crop.width / crop.height;
    least = std::min(least, share), most = std::max(most, share);
    narrowest = std::min(narrowest, aspect), widest = std::max(widest, aspect);
  }
  EXPECT_NEAR(least, 0.2, 0.002);
  EXPECT_NEAR(most, 0.5, 0.002);
  EXPECT_NEAR(narrowest, 3.0 / 4, 0.002);
  EXPECT_NEAR(widest, 4.0 / 3, 0.002);
}

TEST(Placement, AnImageTooLongForAnyCropGivesItsMiddle) {
  Random random(1);
  expect_region(draw_crop({10, 1000}, {0.9, 1}, random), 0, 500 - 10 * 4.0 / 6, 10, 10 * 4.0 / 3);
}

TEST(Placement, TinyCropsOfTinyImagesHaveAPixel) {
  Random random(1);
  const Region crop = draw_crop({3, 3}, {1e-12, 1e-12}, random);
  expect_region({0, 0, crop.height, crop.width}, 0, 0, 1, 1);
}

// A region of an image file of [97, 65] pixels, drawn as 11 × 7 pixels.
std::vector<float> drawn_small(const std::string& file, const Region& region) {
  const ImageSize size = read_image_size(test::bytes_of(file), "x");
  std::vector<float> pixels(3 * 11 * 7);
  draw_image(test::bytes_of(file), "x", size, {region, {0, 0, 11, 7}}, {pixels.data(), 3, {11, 7}});
  return pixels;
}

TEST(Placement, AnImageThatIsDecodedSmallStaysInItsPlaceThoughTheScaleDoesNotDivideItsSides) {
  const std::string eighth = test::jpeg_file(test::gradient_image(97, 65, 3)),
                    lying = test::jpeg_file(test::gradient_image(65, 97, 3));
  ASSERT_EQ(decode_image(test::bytes_of(eighth), "x", {11, 7}).size, (ImageSize{13, 9}));
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const auto turned = [&](const std::string& file) { return test::with_orientation(file, orientation); };
    const std::string jpeg = turned(orientation < 5 ? eighth : lying);
    const std::string png =
        turned(test::png_file(test::gradient_image(orientation < 5 ? 97 : 65, orientation < 5 ? 65 : 97, 3)));
    for (const Region& region : {Region{0, 0, 97, 65}, Region{1, 2, 90, 60}, Region{7, 5, 90, 60}}) {
      const std::vector<float> small = drawn_small(jpeg, region), full = drawn_small(png, region);
      double farthest = 0;
      for (size_t i = 0; i < full.size(); ++i)
        farthest = std::max<double>(farthest, std::abs(small[i] - full[i]));
      EXPECT_LE(farthest, 4) << orientation << " from " << region.top;
    }
  }
}

TEST(Placement, AnImageOfAPixelIsDrawnInAnyOrientation) {
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const std::string jpeg =
        test::with_orientation(test::jpeg_file(test::plain_image(1, 1, {90, 60, 30})), orientation);
    std::vector<float> pixels(3);
    draw_image(test::bytes_of(jpeg), "x", {1, 1}, {{0, 0, 1, 1}, {0, 0, 1, 1}}, {pixels.data(), 3, {1, 1}});
    EXPECT_NEAR(pixels[0], 90, 4) << orientation;
  }
}

}  // namespace
}  // namespace autotrain
