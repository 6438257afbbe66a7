#include "data/colour.h"

#include "support/support.h"

namespace autotrain {
namespace {

// One pixel of each colour, after the change.
std::vector<std::vector<float>> changed(const std::vector<std::vector<float>>& colours,
                                        const ColourChange& change) {
  const auto count = static_cast<int64_t>(colours.size());
  std::vector<float> data;
  for (size_t c = 0; c < colours[0].size(); ++c) {
    for (const auto& colour : colours) data.push_back(colour[c]);
  }
  change_colours({data.data(), static_cast<int64_t>(colours[0].size()), {1, count}}, change);
  std::vector<std::vector<float>> out = colours;
  for (size_t i = 0; i < colours.size(); ++i) {
    for (size_t c = 0; c < out[i].size(); ++c) out[i][c] = data[c * colours.size() + i];
  }
  return out;
}

void expect_near(const std::vector<float>& a, const std::vector<float>& b) {
  for (size_t c = 0; c < b.size(); ++c) EXPECT_NEAR(a[c], b[c], 0.01);
}

TEST(Colour, BrightnessMultipliesAndCuts) {
  expect_near(changed({{100, 200, 3}}, {.brightness = 1.5})[0], {150, 255, 4.5});
}

TEST(Colour, ContrastIsAboutTheMeanGrey) {
  const auto out = changed({{100}, {50}}, {.contrast = 0.5});
  expect_near(out[0], {87.5});
  expect_near(out[1], {62.5});
  const float mean = (0.299f * 255 + 0.114f * 255) / 2;  // of a red and a blue pixel
  expect_near(changed({{255, 0, 0}, {0, 0, 255}}, {.contrast = 0})[0], {mean, mean, mean});
}

TEST(Colour, SaturationIsAboutThePixelsGrey) {
  const float grey = 0.299f * 200 + 0.587f * 100 + 0.114f * 50;
  expect_near(changed({{200, 100, 50}}, {.saturation = 0})[0], {grey, grey, grey});
  expect_near(changed({{200, 100, 50}}, {.saturation = 2})[0], {255, 200 - grey, 0});
}

// Expected values from Python's colorsys.
TEST(Colour, HuesTurn) {
  expect_near(changed({{200, 100, 50}}, {.hue = 0.1})[0], {200, 190, 50});
  expect_near(changed({{10, 240, 90}}, {.hue = -0.3})[0], {240, 136, 10});
  expect_near(changed({{77, 78, 79}}, {.hue = 0.5})[0], {79, 78, 77});
  expect_near(changed({{5, 9, 250}}, {.hue = 0.25})[0], {250, 5, 131.5});
  expect_near(changed({{60, 60, 60}}, {.hue = 0.25})[0], {60, 60, 60});
  expect_near(changed({{255, 0, 0}}, {.hue = 1.0 / 3})[0], {0, 255, 0});
}

TEST(Colour, DrawsStayWithinWhatTheRecipeAsks) {
  const AugmentRecipe augment{.brightness = 0.3, .saturation = 2, .hue = 0.1};
  double least = 2, most = 0;
  for (uint64_t key = 0; key < 2000; ++key) {
    Random random(key);
    const ColourChange change = draw_colour_change(augment, random);
    least = std::min(least, change.brightness);
    most = std::max(most, change.brightness);
    EXPECT_EQ(change.contrast, 1);
    EXPECT_TRUE(change.saturation >= 0 && change.saturation <= 3) << change.saturation;
    EXPECT_LE(std::abs(change.hue), 0.1);
  }
  EXPECT_TRUE(least >= 0.7 && least < 0.71) << least;
  EXPECT_TRUE(most <= 1.3 && most > 1.29) << most;
}

}  // namespace
}  // namespace autotrain
