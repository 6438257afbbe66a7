#include "model/coco_evaluation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "support/coco_case.h"
#include "support/fixtures.h"

namespace autotrain {
namespace {

// pycocotools writes −1 where there is nothing to tell.
double told(double value) {
  return std::isnan(value) ? -1 : value;
}

TEST(CocoEvaluation, IsThatOfPycocotools) {
  const nlohmann::json fixture = test::fixture("coco.json");
  ASSERT_GE(fixture.at("cases").size(), 6u);
  for (const nlohmann::json& one : fixture.at("cases")) {
    const auto name = one.at("name").get<std::string>();
    const CocoEvaluation found = evaluate_coco(test::coco_images(one), one.at("classes"));
    const nlohmann::json& wanted = one.at("expected");
    const auto expect = [&](const char* key, double value) {
      EXPECT_NEAR(told(value), wanted.at(key).get<double>(), 1e-9) << name << ": " << key;
    };
    const CocoFigures& all = found.all;
    expect("map", all.precision);
    expect("map50", all.precision50);
    expect("map75", all.precision75);
    const std::array<const char*, 3> areas = {"small", "medium", "large"}, cuts = {"1", "10", "100"};
    for (size_t i = 0; i < 3; ++i) {
      expect((std::string("map_") + areas[i]).c_str(), all.by_area[i]);
      expect((std::string("recall_") + areas[i]).c_str(), all.recall_by_area[i]);
      expect((std::string("recall") + cuts[i]).c_str(), all.recall[i]);
    }
    for (size_t c = 0; c < found.classes.size(); ++c) {
      const CocoClass& own = found.classes[c];
      EXPECT_NEAR(told(own.figures.precision), wanted.at("by_class")[c].get<double>(), 1e-9) << name << c;
      for (size_t i = 0; own.objects > 0 && i < kCocoRecalls; ++i)
        EXPECT_NEAR(own.curve50[i], wanted.at("curve50")[c][i].get<double>(), 1e-9) << name << c << ' ' << i;
    }
  }
}

TEST(CocoEvaluation, OfNothingTellsNothing) {
  EXPECT_TRUE(std::isnan(evaluate_coco({}, 3).all.precision));
  EXPECT_TRUE(std::isnan(evaluate_coco({CocoImage{.found = {{{0, 0, 4, 4}, 1, 16, 0.5}}}}, 3).all.precision));
  const CocoEvaluation missed = evaluate_coco({CocoImage{.truth = {{{0, 0, 4, 4}, 1, 16, false}}}}, 3);
  EXPECT_EQ(missed.all.precision, 0) << "an object that nobody found";
  EXPECT_EQ(missed.classes.at(1).objects, 1);
}

TEST(CocoEvaluation, ConfusionCountsPairsMissesAndStrays) {
  CocoImage image;
  image.truth = {
      {{0, 0, 10, 10}, 0, 100, false}, {{50, 50, 10, 10}, 1, 100, false}, {{80, 0, 9, 9}, 1, 81, true}};
  image.found = {{{0, 0, 10, 9}, 0, 90, 0.9},      // right
                 {{0, 1, 10, 9}, 1, 90, 0.95},     // the same object again: a stray
                 {{50, 50, 10, 10}, 0, 100, 0.5},  // as the other class
                 {{20, 20, 5, 5}, 1, 25, 0.1}};    // not sure enough
  const std::vector<std::vector<double>> counts = confusion_of_boxes({image}, 2, 0.25);
  const std::vector<std::vector<double>> wanted = {{1, 0, 0}, {1, 0, 0}, {0, 1, 0}};
  EXPECT_EQ(counts, wanted);
}

TEST(CocoEvaluation, ConfusionLeavesOutWhatIsFoundInACrowdOfItsClass) {
  CocoImage image;
  image.truth = {{{0, 0, 40, 40}, 1, 1600, true}};
  image.found = {{{5, 5, 10, 10}, 1, 100, 0.9},     // one of the crowd
                 {{20, 20, 10, 10}, 0, 100, 0.9},   // of another class: a stray
                 {{36, 36, 20, 20}, 1, 400, 0.9}};  // hardly in it: a stray
  const std::vector<std::vector<double>> wanted = {{0, 0, 0}, {0, 0, 0}, {1, 1, 0}};
  EXPECT_EQ(confusion_of_boxes({image}, 2, 0.25), wanted);
}

}  // namespace
}  // namespace autotrain
