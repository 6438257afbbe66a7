#include "data/warp.h"

#include <cmath>
#include <vector>

#include "data/box_placement.h"
#include "support/support.h"

namespace autotrain {
namespace {

constexpr ImageSize kPlanesSize{48, 64};
constexpr AugmentRecipe kEverything{.scale = 0.5, .translate = 0.2, .shear = 20};

// One plane of black with a white rectangle.
struct Canvas {
  explicit Canvas(const Box& box)
      : values(static_cast<size_t>(kPlanesSize.height * kPlanesSize.width), 0.0f) {
    for (int64_t y = box.top; y < box.top + box.height; ++y) {
      for (int64_t x = box.left; x < box.left + box.width; ++x) planes().row(0, y)[x] = 255;
    }
  }
  Planes planes() { return {values.data(), 1, kPlanesSize}; }

  std::vector<float> values;
};

LabelledBox label_of(const Box& box) {
  const auto height = static_cast<double>(kPlanesSize.height), width = static_cast<double>(kPlanesSize.width);
  return {.centre_x = (static_cast<double>(box.left) + static_cast<double>(box.width) / 2) / width,
          .centre_y = (static_cast<double>(box.top) + static_cast<double>(box.height) / 2) / height,
          .width = static_cast<double>(box.width) / width,
          .height = static_cast<double>(box.height) / height};
}

TEST(Warp, APointComesBackToWhereItCameFrom) {
  for (uint64_t key = 0; key < 300; ++key) {
    Random random(key);
    const Warp warp = *draw_warp(kEverything, kPlanesSize, random);
    const Warp::Point point{64 * random.uniform(), 48 * random.uniform()};
    const Warp::Point back = warp.origin(warp.moved(point, kPlanesSize), kPlanesSize);
    EXPECT_NEAR(back.x, point.x, 1e-9);
    EXPECT_NEAR(back.y, point.y, 1e-9);
  }
}

TEST(Warp, KeysOfZeroDrawNothingAndOthersStayWithinTheirBounds) {
  Random random(1), untouched(1);
  EXPECT_FALSE(draw_warp({.mosaic = 1}, kPlanesSize, random));
  EXPECT_EQ(random.next(), untouched.next());
  double least = 9, most = 0, farthest = 0;
  for (uint64_t key = 0; key < 2000; ++key) {
    Random drawn(key);
    const Warp warp = *draw_warp(kEverything, kPlanesSize, drawn);
    least = std::min(least, warp.scale), most = std::max(most, warp.scale);
    farthest = std::max(farthest, std::abs(warp.right));
    EXPECT_LE(std::abs(warp.shear_x), std::tan(20 * std::acos(-1.0) / 180) + 1e-12);
    EXPECT_LE(std::abs(warp.down), 0.2 * 48);
  }
  EXPECT_NEAR(least, 0.5, 0.01);
  EXPECT_NEAR(most, 1.5, 0.01);
  EXPECT_NEAR(farthest, 0.2 * 64, 0.1);
}

// The warped rectangle's brightness, summed, is where its box is, and none of it is elsewhere.
TEST(Warp, BoxesGoWithTheirPixels) {
  int whole = 0;
  for (uint64_t key = 0; key < 200; ++key) {
    Random random(key);
    const Box box{8 + random.below(20), 8 + random.below(30), 6 + random.below(12), 6 + random.below(16)};
    const Warp warp = *draw_warp(kEverything, kPlanesSize, random);
    Canvas canvas(box);
    warp_planes(canvas.planes(), warp);
    const std::vector<LabelledBox> moved = warp_boxes(std::vector{label_of(box)}, warp, kPlanesSize);
    if (moved.empty()) continue;
    const double left = (moved[0].centre_x - moved[0].width / 2) * 64, right = left + moved[0].width * 64;
    const double top = (moved[0].centre_y - moved[0].height / 2) * 48, bottom = top + moved[0].height * 48;
    double inside = 0, outside = 0;
    for (int64_t y = 0; y < kPlanesSize.height; ++y) {
      for (int64_t x = 0; x < kPlanesSize.width; ++x) {
        const double mx = static_cast<double>(x) + 0.5, my = static_cast<double>(y) + 0.5;
        const bool in = mx > left - 1.1 && mx < right + 1.1 && my > top - 1.1 && my < bottom + 1.1;
        (in ? inside : outside) += canvas.planes().row(0, y)[x];
      }
    }
    EXPECT_EQ(outside, 0) << key;
    const bool cut = left < 1e-9 || top < 1e-9 || right > 64 - 1e-9 || bottom > 48 - 1e-9;
    if (cut) continue;
    ++whole;
    const double area = static_cast<double>(box.height * box.width) * warp.scale * warp.scale *
                        (1 - warp.shear_x * warp.shear_y);
    EXPECT_NEAR(inside / 255 / area, 1, 0.2) << key;
  }
  EXPECT_GT(whole, 80);
}

TEST(Warp, ABoxOfWhichTooLittleIsLeftIsDropped) {
  const std::vector<LabelledBox> box = {label_of({20, 4, 8, 8})};
  EXPECT_TRUE(warp_boxes(box, {.right = -10.5}, kPlanesSize).empty());
  const auto cut = warp_boxes(box, {.right = -8}, kPlanesSize);
  ASSERT_EQ(cut.size(), 1u);
  EXPECT_NEAR(cut[0].width, 4.0 / 64, 1e-12);
  EXPECT_NEAR(cut[0].centre_x, 2.0 / 64, 1e-12);
}

TEST(Warp, NothingMovesWithoutAReason) {
  Canvas canvas({10, 20, 9, 13});
  const std::vector<float> before = canvas.values;
  warp_planes(canvas.planes(), {});
  EXPECT_EQ(canvas.values, before);
}

TEST(Warp, SharesOfABlendHaveTheirLaw) {
  double sum = 0, squares = 0;
  constexpr int kDraws = 20000;
  for (uint64_t key = 0; key < kDraws; ++key) {
    Random random(derive_key(5, key));
    const double share = draw_share(random);
    EXPECT_TRUE(share >= 0 && share <= 1);
    sum += share, squares += (share - 0.5) * (share - 0.5);
  }
  EXPECT_NEAR(sum / kDraws, 0.5, 0.01);
  EXPECT_NEAR(squares / kDraws, 1.0 / 16, 0.002) << "of Beta(3/2, 3/2)";
}

TEST(Warp, ABlendIsWeighed) {
  Canvas white({0, 0, 48, 64}), black({0, 0, 0, 0});
  blend(white.planes(), black.planes(), 0.25);
  for (const float value : white.values) EXPECT_FLOAT_EQ(value, 255 * 0.25f);
}

}  // namespace
}  // namespace autotrain
