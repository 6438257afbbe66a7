#include "model/losses.h"

#include "loop/evaluator.h"
#include "support/support.h"

namespace autotrain {
namespace {

// Measures one batch with a loss's metrics.
Evaluation measured(const Loss& loss, const torch::Tensor& prediction, const torch::Tensor& target) {
  EvaluationTerms terms{loss.terms(prediction, target), {}};
  for (const auto& metric : loss.metrics)
    terms.metrics.push_back({metric, metric->measure(prediction, target)});
  EvaluationSums sums;
  sums.add(terms);
  return sums.result();
}

double sum_of(const LossTerms& terms) {
  return terms.sum.item<double>();
}

TEST(Losses, CrossEntropyIsASumWithItsWeight) {
  const torch::Tensor logits = torch::randn({6, 4});
  const torch::Tensor targets = torch::tensor({0, 1, 2, 3, 0, 1});
  const LossTerms all = cross_entropy().terms(logits, targets);
  double parts = 0;
  for (int64_t i = 0; i < 6; ++i) {
    parts += sum_of(cross_entropy().terms(logits.slice(0, i, i + 1), targets.slice(0, i, i + 1)));
  }
  EXPECT_NEAR(sum_of(all), parts, 1e-5);
  EXPECT_EQ(all.weight.item<double>(), 6);
}

TEST(Losses, ClassesMayBeIntegersOfAnyType) {
  const torch::Tensor logits = torch::randn({4, 3}), targets = torch::tensor({1, -100, 2, 0});
  const Evaluation wanted = measured(cross_entropy(), logits, targets);
  for (const auto type : {torch::kInt32, torch::kInt16, torch::kInt8})
    EXPECT_EQ(measured(cross_entropy(), logits, targets.to(type)).figures, wanted.figures) << type;
}

TEST(Losses, IgnoredTargetsCountForNothing) {
  const torch::Tensor logits = torch::randn({4, 3});
  const torch::Tensor targets = torch::tensor({1, -100, 2, -100});
  const LossTerms terms = cross_entropy({.label_smoothing = 0.1}).terms(logits, targets);
  const LossTerms kept = cross_entropy({.label_smoothing = 0.1})
                             .terms(logits.index_select(0, torch::tensor({0, 2})), torch::tensor({1, 2}));
  EXPECT_NEAR(sum_of(terms), sum_of(kept), 1e-6);
  EXPECT_EQ(terms.weight.item<double>(), 2);
}

TEST(Losses, AnIgnoredTargetMayBeAClassAndIsStillNoHit) {
  const torch::Tensor logits = torch::zeros({4, 6});
  logits.select(1, 0).fill_(1);  // predicts class 0 everywhere
  auto figures = measured(cross_entropy({.ignore_index = 0}), logits, torch::tensor({0, 0, 1, 2})).figures;
  EXPECT_EQ(figures.at("accuracy"), 0);
  EXPECT_LE(figures.at("top5"), 1);
}

TEST(Losses, SequencesAreFlattenedAndHavePerplexity) {
  const torch::Tensor logits = torch::zeros({2, 5, 8});
  const torch::Tensor targets = torch::zeros({2, 5}, torch::kInt64);
  const LossTerms terms = cross_entropy().terms(logits, targets);
  EXPECT_NEAR(sum_of(terms), 10 * std::log(8.0), 1e-4);
  EXPECT_EQ(terms.weight.item<double>(), 10);
  EXPECT_NEAR(measured(cross_entropy(), logits, targets).figures.at("perplexity"), 8, 1e-4);
}

TEST(Losses, ClassesOfPixelsStandSecondOrLastAndAreWeightedAsInPyTorch) {
  const torch::Tensor logits = torch::randn({2, 5, 3, 4}), targets = torch::randint(5, {2, 3, 4});
  targets[0][1] = 255;
  const std::vector<double> weights = {1, 2, 3, 0.5, 4};
  const Loss loss = cross_entropy({.ignore_index = 255, .class_weights = weights});
  const double sum = at::cross_entropy_loss(logits, targets, torch::tensor(weights, torch::kFloat32),
                                            at::Reduction::Sum, 255)
                         .item<double>();
  for (const torch::Tensor& wanted : {targets, targets.unsqueeze(1), targets.unsqueeze(3)}) {
    for (const torch::Tensor& given : {logits, logits.permute({0, 2, 3, 1})})
      EXPECT_NEAR(sum_of(loss.terms(given, wanted)), sum, 1e-4);
  }
  const torch::Tensor counted = targets != 255, right = (logits.argmax(1) == targets).logical_and(counted);
  const auto figures = measured(loss, logits, targets).figures;
  EXPECT_NEAR(figures.at("accuracy"), right.sum().item<double>() / counted.sum().item<double>(), 1e-6);
  double iou = 0;
  for (int64_t k = 0; k < 5; ++k) {
    const torch::Tensor chosen = (logits.argmax(1) == k).logical_and(counted), wanted = targets == k;
    iou +=
        chosen.logical_and(wanted).sum().item<double>() / chosen.logical_or(wanted).sum().item<double>() / 5;
  }
  EXPECT_NEAR(figures.at("mean_iou"), iou, 1e-6);
}

TEST(Losses, SizesOfWhichTheClassesMayBeEitherAreThoseOfASequenceOrRefused) {
  const torch::Tensor logits = torch::randn({2, 4, 4}), targets = torch::randint(4, {2, 4});
  EXPECT_NEAR(
      sum_of(cross_entropy().terms(logits, targets)),
      at::cross_entropy_loss(logits.flatten(0, 1), targets.flatten(), {}, at::Reduction::Sum).item<double>(),
      1e-4);
  EXPECT_THROW(cross_entropy().terms(torch::randn({2, 4, 4, 4}), torch::zeros({2, 4, 4}, torch::kInt64)),
               Error);
  // As many rows of logits as targets, which are not theirs.
  EXPECT_THROW(cross_entropy().terms(torch::randn({2, 3, 6, 4}), torch::zeros({2, 4, 9}, torch::kInt64)),
               Error);
}

TEST(Losses, ATargetThatTheModelDoesNotPredictIsNamed) {
  try {
    cross_entropy().terms(torch::randn({2, 3, 5, 5}), torch::full({2, 5, 5}, 7, torch::kInt64));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadData);
    EXPECT_TRUE(test::holds(error.what(), "to 7, and the model predicts 3 classes"));
  }
}

TEST(Losses, CrossEntropyOfOneClassIsRefusedSinceItTeachesNothing) {
  for (const int64_t highest : {0, 1}) {
    const Error error = test::expect_error(ExitCode::kBadData, [&] {
      cross_entropy().terms(torch::randn({2, 1}), torch::tensor({int64_t{0}, highest}));
    });
    EXPECT_TRUE(test::holds(error.what(), "predicts one class only"));
    EXPECT_TRUE(test::holds(error.hint(), "binary_cross_entropy"));
  }
}

TEST(Losses, OneLabelForEveryPixelMayStandWithoutItsDimension) {
  const torch::Tensor logits = torch::randn({2, 1, 3, 4}), targets = torch::rand({2, 3, 4});
  const double sum =
      at::binary_cross_entropy_with_logits(logits.squeeze(1), targets, {}, {}, at::Reduction::Sum)
          .item<double>();
  EXPECT_NEAR(sum_of(binary_cross_entropy().terms(logits, targets)), sum, 1e-4);
  EXPECT_NEAR(sum_of(binary_cross_entropy().terms(logits.squeeze(1), targets.unsqueeze(1))), sum, 1e-4);
  const torch::Tensor wanted = targets > 0.5;
  const auto figures = measured(binary_cross_entropy(), logits, wanted.to(torch::kFloat32)).figures;
  const torch::Tensor chosen = logits.squeeze(1) > 0;
  EXPECT_NEAR(figures.at("label_accuracy"), (chosen == wanted).to(torch::kFloat64).mean().item<double>(),
              1e-6);
  const double both = chosen.logical_and(wanted).sum().item<double>();
  EXPECT_NEAR(figures.at("macro_f1"), 2 * both / (chosen.sum() + wanted.sum()).item<double>(), 1e-6);
}

TEST(Losses, AccuracyAndTopFiveCountHits) {
  torch::Tensor logits = torch::zeros({3, 7});
  logits[0][2] = 5;                                         // hit
  logits[1] = torch::tensor({6., 5., 4., 3., 2., 1., 0.});  // target 4 is fifth
  logits[2] = torch::tensor({6., 5., 4., 3., 2., 1., 0.});  // target 6 is last
  auto figures = measured(cross_entropy(), logits, torch::tensor({2, 4, 6})).figures;
  EXPECT_NEAR(figures.at("accuracy"), 1.0 / 3, 1e-12);
  EXPECT_NEAR(figures.at("top5"), 2.0 / 3, 1e-12);
  EXPECT_FALSE(figures.contains("perplexity"));
}

TEST(Losses, HalfPrecisionLogitsAreSummedInFloat) {
  const torch::Tensor logits = torch::randn({4096, 10});
  const torch::Tensor targets = torch::zeros({4096}, torch::kInt64);
  const LossTerms half = cross_entropy().terms(logits.to(torch::kBFloat16), targets);
  EXPECT_EQ(half.sum.scalar_type(), torch::kFloat32);
  EXPECT_NEAR(sum_of(half) / sum_of(cross_entropy().terms(logits, targets)), 1, 1e-3);
}

TEST(Losses, MeanSquaredErrorTakesValuesOrClasses) {
  const torch::Tensor prediction = torch::tensor({{1., 0.}, {0., 3.}});
  const LossTerms values = mean_squared_error().terms(prediction, torch::zeros({2, 2}));
  EXPECT_EQ(sum_of(values), 10);
  EXPECT_EQ(values.weight.item<double>(), 4);
  EXPECT_EQ(sum_of(mean_squared_error().terms(prediction, torch::tensor({0, 1}))), 4);
  test::expect_error(ExitCode::kBadData, [&] {
    mean_squared_error().terms(prediction, torch::zeros({2, 3}));
  });
}

TEST(Losses, CrossEntropyRefusesTargetsThatAreNoClasses) {
  const Error error = test::expect_error(ExitCode::kBadData, [] {
    cross_entropy().terms(torch::randn({3, 1}), torch::randn({3, 1}));
  });
  EXPECT_TRUE(test::holds(error.hint(), "mean_squared_error"));
}

TEST(Losses, MeanSquaredErrorComesWithTheAbsoluteOne) {
  const torch::Tensor prediction = torch::tensor({{1., 0.}, {0., -3.}});
  auto figures = measured(mean_squared_error(), prediction.to(torch::kBFloat16), torch::ones({2, 2})).figures;
  EXPECT_EQ(figures.at("mean_absolute_error"), 6.0 / 4);
  const auto of_classes = measured(mean_squared_error(), prediction, torch::tensor({0, 1})).figures;
  EXPECT_EQ(of_classes.at("mean_absolute_error"), 4.0 / 4);
}

}  // namespace
}  // namespace autotrain
