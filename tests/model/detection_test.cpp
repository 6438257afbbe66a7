#include <torch/optim/adam.h>

#include <cmath>

#include "model/losses.h"
#include "model/models.h"
#include "support/support.h"

namespace autotrain {
namespace {

Loss detection() {
  return make_loss({"detection", {}});
}

// Σ over true boxes of each figure, and how many boxes there are.
std::vector<torch::Tensor> box_sums(const Loss& loss, const torch::Tensor& prediction,
                                    const torch::Tensor& target) {
  return loss.metrics.at(0)->measure(prediction, target).sums;
}

double logit(double p) {
  return std::log(p / (1 - p));
}

torch::Tensor row(std::vector<float> numbers) {
  return torch::tensor(numbers);
}

// A box in the cell (1, 0) of a grid of 2 × 2, predicted exactly but for its objectness.
torch::Tensor exact_prediction() {
  torch::Tensor prediction = torch::zeros({1, 2, 2, 7});
  const std::vector<double> numbers = {1, logit(0.5), logit(0.5), logit(0.3), logit(0.4), 2, 0};
  for (size_t i = 0; i < numbers.size(); ++i) prediction[0][1][0][static_cast<int64_t>(i)] = numbers[i];
  return prediction;
}

const std::vector<float> kBox = {0, 0.25f, 0.75f, 0.3f, 0.4f};
const std::vector<float> kNone = {-1, 0, 0, 0, 0};

TEST(Detection, ALossWorkedOutByHand) {
  const torch::Tensor target = row(kBox).view({1, 1, 5});
  const LossTerms terms = detection().terms(exact_prediction(), target);
  const double empty = 0.5 * std::log(2.0), full = std::log1p(std::exp(-1.0)),
               of_class = std::log1p(std::exp(-2.0));
  EXPECT_NEAR(terms.sum.item<double>(), 3 * empty + full + of_class, 1e-5) << "and nothing for the box";
  EXPECT_EQ(terms.weight.item<double>(), 1);
}

TEST(Detection, GeneralisedOverlapWorkedOutByHand) {
  torch::Tensor prediction = exact_prediction();
  prediction[0][1][0][3] = logit(0.6);  // twice as wide: overlap one half, nothing else enclosed
  const Loss loss = make_loss({"detection", {{"box_weight", 4.0}}});
  const torch::Tensor target = row(kBox).view({1, 1, 5});
  const double difference =
      (loss.terms(prediction, target).sum - loss.terms(exact_prediction(), target).sum).item<double>();
  EXPECT_NEAR(difference, 4 * 0.5, 1e-4);
  EXPECT_NEAR(box_sums(loss, prediction, target)[0].item<double>(), 0.5, 1e-4);
}

// Boxes that need not lie over each other: what their common hull holds beside them counts against them.
TEST(Detection, GeneralisedOverlapOfShiftedAndDisjointBoxesWorkedOutByHand) {
  const Loss loss = make_loss({"detection", {{"box_weight", 4.0}}});
  const torch::Tensor target = row(kBox).view({1, 1, 5});
  const auto box_term = [&](double x, double y, double w, double h) {
    torch::Tensor prediction = exact_prediction();
    const std::vector<double> moved = {logit(x), logit(y), logit(w), logit(h)};
    for (size_t i = 0; i < 4; ++i) prediction[0][1][0][static_cast<int64_t>(i) + 1] = moved[i];
    return (loss.terms(prediction, target).sum - loss.terms(exact_prediction(), target).sum).item<double>() /
           4;
  };
  // [0.20, 0.50] × [0.60, 1.00] and [0.10, 0.40] × [0.55, 0.95]: 0.07 in common, 0.17 covered, a hull of
  // 0.18.
  EXPECT_NEAR(box_term(0.7, 0.6, 0.3, 0.4), 1 - (0.07 / 0.17 - 0.01 / 0.18), 1e-4);
  // [0.425, 0.525] × [0.90, 1.00]: nothing in common, 0.13 covered, a hull of 0.425 × 0.45.
  EXPECT_NEAR(box_term(0.95, 0.9, 0.1, 0.1), 1 + (0.19125 - 0.13) / 0.19125, 1e-4);
}

TEST(Detection, RowsThatFillUpCountForNothing) {
  const Loss loss = detection();
  const torch::Tensor prediction = torch::randn({1, 2, 2, 7});
  const torch::Tensor one = row(kBox).view({1, 1, 5}),
                      filled = torch::stack({row(kBox), row(kNone)}).unsqueeze(0);
  EXPECT_NEAR(loss.terms(prediction, one).sum.item<double>(),
              loss.terms(prediction, filled).sum.item<double>(), 1e-5);
  EXPECT_EQ(box_sums(loss, prediction, filled).back().item<double>(), 1);
}

TEST(Detection, IsASumOverSamples) {
  torch::manual_seed(2);
  const Loss loss = detection();
  const torch::Tensor prediction = torch::randn({3, 4, 5, 9});
  torch::Tensor target = torch::rand({3, 6, 5}) * 0.9 + 0.05;
  target.select(2, 0) = torch::randint(-1, 4, {3, 6});
  double sum = 0, weight = 0;
  for (int64_t i = 0; i < 3; ++i) {
    const LossTerms terms = loss.terms(prediction.slice(0, i, i + 1), target.slice(0, i, i + 1));
    sum += terms.sum.item<double>();
    weight += terms.weight.item<double>();
  }
  const LossTerms whole = loss.terms(prediction, target);
  EXPECT_NEAR(whole.sum.item<double>(), sum, 1e-4);
  EXPECT_EQ(whole.weight.item<double>(), weight);
}

TEST(Detection, GradientsAreFiniteForExtremePredictions) {
  torch::Tensor prediction = torch::full({1, 2, 2, 7}, -200.0f).requires_grad_();
  detection().terms(prediction, row(kBox).view({1, 1, 5})).sum.backward();
  EXPECT_TRUE(prediction.grad().isfinite().all().item<bool>());
}

TEST(Detection, OtherPredictionsAndTargetsAreRefused) {
  test::expect_error(ExitCode::kBadRecipe, [] {
    detection().terms(torch::zeros({2, 7}), torch::zeros({2, 1, 5}));
  });
  test::expect_error(ExitCode::kBadRecipe, [] {
    detection().terms(torch::zeros({2, 2, 2, 7}), torch::zeros({2}, torch::kInt64));
  });
  test::expect_error(ExitCode::kBadRecipe, [] {
    detection().terms(torch::zeros({2, 2, 2, 5}), torch::zeros({2, 1, 5}));
  });
}

TEST(Detection, TargetsOfClassesThatTheModelDoesNotPredictAreRefused) {
  const Error error = test::expect_error(ExitCode::kBadData, [] {
    detection().terms(torch::zeros({1, 2, 2, 7}), row({2, 0.25f, 0.75f, 0.3f, 0.4f}).view({1, 1, 5}));
  });
  EXPECT_TRUE(test::holds(error.what(), "have the class 2, and the model predicts 2 classes"))
      << error.what();
}

// Coloured rectangles on noise: red or blue, one or two an image.
Batch scenes(int64_t n) {
  Batch batch{torch::rand({n, 3, 32, 32}) * 0.3, torch::full({n, 2, 5}, -1.0f), n};
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t b = 0; b <= i % 2; ++b) {
      const auto draw = [](int64_t least, int64_t end) {
        return torch::randint(least, end, {1}).item<int64_t>();
      };
      const int64_t height = draw(6, 12), width = draw(6, 12), top = draw(0, 32 - height), half = 16 * b;
      const int64_t left = half + draw(0, 16 - width), category = draw(0, 2);
      batch.inputs[i][2 * category].slice(0, top, top + height).slice(1, left, left + width).fill_(1);
      const std::vector<int64_t> doubled = {2 * left + width, 2 * top + height, 2 * width, 2 * height};
      batch.targets[i][b][0] = category;
      batch.targets[i][b].slice(0, 1) = torch::tensor(doubled) / 64.0;
    }
  }
  return batch;
}

TEST(Detection, TheDetectorLearnsColouredRectangles) {
  torch::manual_seed(4);
  const auto model =
      make_model({"detector", {{"blocks", int64_t{3}}, {"width", int64_t{8}}}}, {{3, 32, 32}, 2, 0});
  const Loss loss = detection();
  torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(0.005));
  const Batch held_out = scenes(64);
  const auto measure = [&] {
    return loss.terms(model->forward(held_out.inputs), held_out.targets).sum.item<double>() / 64;
  };
  const double before = measure();
  for (int update = 0; update < 150; ++update) {
    const Batch batch = scenes(32);
    optimizer.zero_grad();
    (loss.terms(model->forward(batch.inputs), batch.targets).sum / 32).backward();
    optimizer.step();
  }
  EXPECT_LT(measure(), before / 3);
  const auto metric = loss.metrics.at(0);
  const MetricState state = metric->measure(model->forward(held_out.inputs), held_out.targets);
  for (const Figure& figure : metric->figures(state)) EXPECT_GT(figure.value, 0.6) << figure.name;
}

}  // namespace
}  // namespace autotrain
