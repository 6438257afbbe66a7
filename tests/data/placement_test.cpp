#include "data/placement.h"

#include <cmath>

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

}  // namespace
}  // namespace autotrain
