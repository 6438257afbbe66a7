#include "model/detections.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace autotrain {
namespace {

float overlap(const Detection& a, const Detection& b) {
  const float width = std::max(0.0f, std::min(a.right, b.right) - std::max(a.left, b.left));
  const float height = std::max(0.0f, std::min(a.bottom, b.bottom) - std::max(a.top, b.top));
  const float both = width * height;
  const auto area = [](const Detection& d) { return (d.right - d.left) * (d.bottom - d.top); };
  return both > 0 ? both / (area(a) + area(b) - both) : 0;
}

// One box after the other, compared with every box that was kept.
std::vector<Detection> one_by_one(std::vector<Detection> boxes, const SuppressionOptions& o) {
  std::ranges::stable_sort(boxes, std::ranges::greater(), &Detection::score);
  std::vector<Detection> kept;
  for (const Detection& box : boxes) {
    const bool dropped = std::ranges::any_of(kept, [&](const Detection& better) {
      return better.category == box.category && overlap(better, box) > o.overlap;
    });
    if (!dropped && std::ssize(kept) < o.most) kept.push_back(box);
  }
  return kept;
}

// Corners on a grid of whole pixels and few scores, so that boxes and scores are equal at times. No quotient
// of their areas is near the threshold without being it or away from it by more than rounding.
std::vector<Detection> draw_boxes(std::mt19937& random) {
  const auto draw = [&](int least, int most) {
    return static_cast<float>(std::uniform_int_distribution(least, most)(random));
  };
  std::vector<Detection> boxes(static_cast<size_t>(draw(0, 40)));
  for (Detection& box : boxes) {
    box.left = draw(0, 12);
    box.top = draw(0, 12);
    box.right = box.left + draw(0, 8);
    box.bottom = box.top + draw(0, 8);
    box.score = draw(0, 15) / 16;
    box.category = static_cast<int32_t>(draw(0, 2));
  }
  return boxes;
}

TEST(Detections, SuppressionIsThatOfOneByOneInTenThousandSets) {
  std::mt19937 random(5);
  for (int set = 0; set < 10000; ++set) {
    const std::vector<Detection> boxes = draw_boxes(random);
    const SuppressionOptions o{.overlap = 0.45f, .most = set % 2 == 0 ? 100 : 7};
    ASSERT_EQ(suppress(boxes, o), one_by_one(boxes, o)) << "set " << set;
  }
}

TEST(Detections, SuppressionOfWhatIsKeptKeepsIt) {
  std::mt19937 random(6);
  const std::vector<Detection> kept = suppress(draw_boxes(random), {});
  EXPECT_EQ(suppress(kept, {}), kept);
}

TEST(Detections, BoxesOfOtherClassesStandBesideEachOther) {
  const Detection cat{0, 0, 4, 4, 0.9f, 0}, dog{0, 0, 4, 4, 0.8f, 1}, other{0, 0, 4, 4, 0.7f, 0};
  EXPECT_EQ(suppress({other, dog, cat}, {}), (std::vector{cat, dog}));
}

}  // namespace
}  // namespace autotrain
