#include "study/curve.h"

#include <cmath>

#include "support/support.h"

namespace autotrain {
namespace {

// Evaluations after 100, 200, … samples, of which each takes a second.
Curve curve_of(const std::vector<double>& accuracies) {
  Curve curve;
  for (size_t i = 1; i <= accuracies.size(); ++i) {
    const auto n = static_cast<int64_t>(i);
    curve.push_back({n,
                     100 * n,
                     static_cast<double>(n),
                     0.5 * static_cast<double>(n),
                     {{"accuracy", accuracies[i - 1]}}});
  }
  return curve;
}

TEST(Curve, AFigureBetweenEvaluationsIsOnTheLine) {
  const Curve curve = curve_of({0.5, 0.7, 0.8});
  EXPECT_DOUBLE_EQ(figure_at(curve, "accuracy", FairAxis::kSamples, 200).value(), 0.7);
  EXPECT_DOUBLE_EQ(figure_at(curve, "accuracy", FairAxis::kSamples, 250).value(), 0.75);
  EXPECT_DOUBLE_EQ(figure_at(curve, "accuracy", FairAxis::kSeconds, 1.5).value(), 0.6);
}

TEST(Curve, ThereIsNoFigureBeforeTheFirstEvaluationOrAfterTheLast) {
  const Curve curve = curve_of({0.5, 0.7});
  EXPECT_FALSE(figure_at(curve, "accuracy", FairAxis::kSamples, 99));
  EXPECT_FALSE(figure_at(curve, "accuracy", FairAxis::kSamples, 201));
  EXPECT_FALSE(figure_at(curve, "top5", FairAxis::kSamples, 150));
  EXPECT_FALSE(figure_at({}, "accuracy", FairAxis::kSamples, 150));
}

TEST(Curve, AFigureThatIsNotFiniteIsNone) {
  const Curve curve = curve_of({0.5, NAN, 0.7});
  EXPECT_FALSE(figure_at(curve, "accuracy", FairAxis::kSamples, 200));
  EXPECT_FALSE(figure_at(curve, "accuracy", FairAxis::kSamples, 250));
  EXPECT_EQ(first_reaching(curve, {"accuracy", 0.6}), &curve[2]);
}

TEST(Curve, ATargetIsReachedAtTheFirstEvaluationThatHasIt) {
  const Curve curve = curve_of({0.5, 0.7, 0.6, 0.7});
  EXPECT_EQ(first_reaching(curve, {"accuracy", 0.7}), &curve[1]);
  EXPECT_EQ(first_reaching(curve, {"accuracy", 0.5, /*at_most=*/true}), &curve[0]);
  EXPECT_EQ(first_reaching(curve, {"accuracy", 0.71}), nullptr);
}

TEST(Curve, TheShareOfARunIsThatOfTheNearestLimit) {
  const Curve curve = curve_of({0.5, 0.7, 0.8, 0.9});  // half an epoch each
  const StopRecipe epochs{.epochs = 2}, both{.epochs = 4, .updates = 4}, time{.minutes = 5};
  EXPECT_EQ(share_of_run(epochs, curve[2]), 0.75);
  EXPECT_EQ(share_of_run(both, curve[2]), 0.75);
  EXPECT_EQ(share_of_run({.samples = 200}, curve[2]), 1);
  EXPECT_EQ(share_of_run(time, curve[2]), 0);
  EXPECT_EQ(at_share(curve, epochs, 0.6), &curve[2]);
  EXPECT_EQ(at_share(curve, epochs, 0.5), &curve[1]);
  EXPECT_EQ(at_share(curve, time, 0.5), &curve[3]) << "a run that ended by itself";
  EXPECT_EQ(at_share({}, epochs, 0.5), nullptr);
}

TEST(Curve, TellsWhatWasSpentBeforeEachEvaluation) {
  const test::TemporaryFolder folder;
  const auto path = folder.write("metrics.jsonl", R"(
{"kind":"update","update":1,"samples":10,"training_seconds":0.5}
{"kind":"update","update":2,"samples":20,"training_seconds":1.0}
{"kind":"evaluation","update":2,"epoch":0.1,"split":"validation","loss":null,"accuracy":0.5,"seconds":9,"samples":77}
{"kind":"event","update":2,"event":"skipped","detail":""}
)");
  const Curve curve = curve_from_json(curve_to_json(read_curve(path)));
  ASSERT_EQ(curve.size(), 1u);
  EXPECT_EQ(curve[0].update, 2);
  EXPECT_EQ(curve[0].samples, 20);
  EXPECT_EQ(curve[0].seconds, 1.0);
  EXPECT_EQ(curve[0].epoch, 0.1);
  ASSERT_EQ(curve[0].figures.size(), 2u);
  EXPECT_EQ(curve[0].figures.at("accuracy"), 0.5);
  EXPECT_TRUE(std::isnan(curve[0].figures.at("loss")));
}

TEST(Curve, WhatARollbackTookBackDoesNotCount) {
  const test::TemporaryFolder folder;
  const auto path = folder.write("metrics.jsonl", R"(
{"kind":"evaluation","update":2,"accuracy":0.2}
{"kind":"evaluation","update":4,"accuracy":0.4}
{"kind":"evaluation","update":6,"accuracy":0.1}
{"kind":"event","update":3,"event":"rollback","detail":""}
{"kind":"evaluation","update":4,"accuracy":0.5}
)");
  const Curve curve = read_curve(path);
  ASSERT_EQ(curve.size(), 2u);
  EXPECT_EQ(curve[1].figures.at("accuracy"), 0.5);
}

}  // namespace
}  // namespace autotrain
