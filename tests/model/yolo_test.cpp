#include <torch/optim/adam.h>

#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numbers>

#include "autotrain/operator_counts.h"
#include "base/text.h"
#include "base/units.h"
#include "model/boxes.h"
#include "model/losses.h"
#include "model/models.h"
#include "model/task_aligned.h"
#include "model/yolo_metric.h"
#include "support/support.h"

namespace autotrain {
namespace {

constexpr int64_t kClasses = 3;
constexpr int64_t kPoints = 16 + 4 + 1;  // of an image of 32 × 32 pixels
const std::vector<float> kNone = {-1, 0, 0, 0, 0};

torch::Tensor points() {
  return yolo_points({{4, 4}, {2, 2}, {1, 1}}, 32, 32);
}

// What model yolo may say of so many images.
torch::Tensor prediction_of(const torch::Tensor& bins_and_logits) {
  return torch::cat({bins_and_logits, points().expand({bins_and_logits.size(0), -1, -1})}, 2);
}

torch::Tensor random_prediction(int64_t n) {
  return prediction_of(torch::randn({n, kPoints, 4 * kYoloBins + kClasses}));
}

torch::Tensor target_of(const std::vector<std::vector<std::vector<float>>>& images) {
  std::vector<torch::Tensor> all;
  for (const auto& boxes : images) {
    std::vector<torch::Tensor> rows;
    for (const auto& box : boxes) rows.push_back(torch::tensor(box));
    all.push_back(torch::stack(rows));
  }
  return torch::stack(all);
}

Loss yolo_loss() {
  return make_loss({"yolo", {}});
}

// ------------------------------------------------------------------ geometry

TEST(Yolo, PointsAreTheMiddlesOfCells) {
  const torch::Tensor all = yolo_points({{2, 3}, {1, 2}, {1, 1}}, 16, 24);
  EXPECT_EQ(all.sizes(), (std::vector<int64_t>{9, kPointColumns}));
  EXPECT_TRUE(all[4].equal(torch::tensor({12.0f, 12.0f, 8.0f, 24.0f, 16.0f}))) << all[4];
  EXPECT_TRUE(all[7].equal(torch::tensor({24.0f, 8.0f, 16.0f, 24.0f, 16.0f}))) << all[7];
}

TEST(Yolo, BoxesAreExpectedDistancesFromPoints) {
  torch::Tensor said = torch::zeros({1, kPoints, 4 * kYoloBins + kClasses});
  // Of point 5, at (12, 12): one stride to the left, two up, none right, and evenly 1 or 2 down.
  for (const auto& [edge, bin] :
       std::vector<std::pair<int64_t, int64_t>>{{0, 1}, {1, 2}, {2, 0}, {3, 1}, {3, 2}})
    said[0][5][edge * kYoloBins + bin] = 50;
  const torch::Tensor box = YoloOutput::of(prediction_of(said), "").boxes()[0][5];
  EXPECT_TRUE(box.allclose(torch::tensor({4.0f, -4.0f, 12.0f, 24.0f}), 1e-4, 1e-4)) << box;
}

TEST(Yolo, CompleteOverlapWorkedOutByHand) {
  const torch::Tensor wanted = torch::tensor({0.0, 0.0, 4.0, 2.0}, torch::kFloat64);
  const torch::Tensor moved = torch::tensor({2.0, 0.0, 6.0, 2.0}, torch::kFloat64);
  EXPECT_NEAR(complete_iou(moved, wanted).item<double>(), 1.0 / 3 - 4.0 / 40, 1e-8);
  const torch::Tensor square = torch::tensor({1.0, 0.0, 3.0, 2.0}, torch::kFloat64);
  const double unlike = std::pow(2 / std::numbers::pi * (std::atan(2.0) - std::atan(1.0)), 2);
  EXPECT_NEAR(complete_iou(square, wanted).item<double>(), 0.5 - unlike * unlike / (0.5 + unlike), 1e-8);
}

// The penalty's weight is held at what it is, as no gradient goes through it.
TEST(Yolo, GradientOfCompleteOverlapIsThatOfDifferences) {
  const torch::Tensor wanted = torch::tensor({1.0, 2.0, 7.0, 5.0}, torch::kFloat64);
  const torch::Tensor predicted = torch::tensor({2.0, 1.5, 6.0, 6.5}, torch::kFloat64);
  const auto unlike = [&](const torch::Tensor& box) {
    const auto angle = [](const torch::Tensor& b) {
      return std::atan(((b[2] - b[0]) / (b[3] - b[1])).item<double>());
    };
    return std::pow(2 / std::numbers::pi * (angle(wanted) - angle(box)), 2);
  };
  const auto weight = [&](const torch::Tensor& box) {
    return unlike(box) / (1 - box_iou(box, wanted).item<double>() + unlike(box));
  };
  const double held = weight(predicted);
  const auto value = [&](const torch::Tensor& box) {
    return complete_iou(box, wanted).item<double>() + (weight(box) - held) * unlike(box);
  };
  const torch::Tensor variable = predicted.clone().requires_grad_();
  complete_iou(variable, wanted).backward();
  for (int64_t i = 0; i < 4; ++i) {
    torch::Tensor more = predicted.clone(), less = predicted.clone();
    more[i] += 1e-5;
    less[i] -= 1e-5;
    EXPECT_NEAR(variable.grad()[i].item<double>(), (value(more) - value(less)) / 2e-5, 1e-6) << i;
  }
}

TEST(Yolo, DistributionFocalLossWorkedOutByHand) {
  torch::Tensor bins = torch::zeros({4, kYoloBins}, torch::kFloat64);
  bins[0][3] = 2;
  const double all = std::log(15 + std::exp(2.0)), even = std::log(16.0);
  // 3.25 lies between 3 and 4; 15 and what is beyond on the last bin, what is below 0 on the first.
  const torch::Tensor wanted = torch::tensor({3.25, 15.0, 99.0, -1.0}, torch::kFloat64);
  EXPECT_NEAR(distribution_focal(bins, wanted).item<double>(), 0.75 * (all - 2) + 0.25 * all + 3 * even,
              1e-9);
}

TEST(Yolo, GradientOfDistributionFocalLossIsThatOfDifferences) {
  torch::manual_seed(3);
  const torch::Tensor bins = torch::randn({4, kYoloBins}, torch::kFloat64);
  const torch::Tensor wanted = torch::tensor({0.0, 3.7, 14.9, 15.0}, torch::kFloat64);
  const torch::Tensor variable = bins.clone().requires_grad_();
  distribution_focal(variable, wanted).backward();
  for (const int64_t i : {0, 3, 19, 20, 30, 46, 47, 63}) {
    torch::Tensor more = bins.clone(), less = bins.clone();
    more.view(-1)[i] += 1e-5;
    less.view(-1)[i] -= 1e-5;
    const torch::Tensor slope = (distribution_focal(more, wanted) - distribution_focal(less, wanted)) / 2e-5;
    EXPECT_NEAR(variable.grad().view(-1)[i].item<double>(), slope.item<double>(), 1e-7) << i;
  }
}

// ------------------------------------------------------------------ assignment

// All points say one box and class 0 at one half, but for those that a test changes.
struct Said {
  torch::Tensor bins_and_logits = torch::zeros({1, kPoints, 4 * kYoloBins + kClasses});
  torch::Tensor boxes = torch::tensor({0.0f, 0.0f, 8.0f, 16.0f}).expand({1, kPoints, 4}).clone();

  void score(int64_t point, int64_t category, double score) {
    bins_and_logits[0][point][4 * kYoloBins + category] = std::log(score / (1 - score));
  }
  void box(int64_t point, const std::vector<float>& edges) { boxes[0][point] = torch::tensor(edges); }
  Assignment given(const TaskAlignedOptions& options, const torch::Tensor& target) const {
    return assign_points(options, YoloOutput::of(prediction_of(bins_and_logits), ""), boxes, target);
  }
};

TEST(Yolo, AssignmentWorkedOutByHand) {
  Said said;
  said.box(0, {0, 0, 16, 16});  // exact; all others overlap by one half
  said.score(1, 0, 0.8);
  said.box(2, {0, 0, 16, 16});  // exact, too, but its point lies beside the box
  const torch::Tensor target = target_of({{{0, 0.25f, 0.25f, 0.5f, 0.5f}}});
  const Assignment given = said.given({.points_of_a_box = 2}, target);
  // s · u⁶ is 0.5 of point 0, 0.8 ÷ 64 of point 1 and 0.5 ÷ 64 of the others in the box.
  EXPECT_NEAR(given.weight[0][0].item<double>(), 1, 1e-6);
  EXPECT_NEAR(given.weight[0][1].item<double>(), 0.8 / 64 / 0.5, 1e-6);
  EXPECT_NEAR(given.weight.sum().item<double>(), 1.025, 1e-6);
  EXPECT_NEAR(given.scores.select(2, 0).sum().item<double>(), 1.025, 1e-6);
  EXPECT_EQ(given.scores.narrow(2, 1, 2).abs().sum().item<double>(), 0);
  EXPECT_TRUE(given.boxes[0][1].equal(torch::tensor({0.0f, 0.0f, 16.0f, 16.0f})));
}

TEST(Yolo, APointThatTwoBoxesWantGoesToTheOneItOverlapsMore) {
  Said said;
  said.box(0, {0, 0, 8, 10});
  said.score(0, 1, 0.9);  // though its score is that of the other one
  const torch::Tensor target =
      target_of({{{0, 0.125f, 0.15f, 0.25f, 0.3f}, {1, 0.125f, 0.25f, 0.25f, 0.5f}}});
  const Assignment given = said.given({}, target);
  EXPECT_GT(given.scores[0][0][0].item<double>(), 0.9);
  EXPECT_EQ(given.scores[0][0][1].item<double>(), 0);
  EXPECT_TRUE((given.scores > 0).sum(2).le(1).all().item<bool>());
}

TEST(Yolo, ABoxBetweenAllPointsIsGivenOne) {
  Said said;
  said.boxes = torch::tensor({7.0f, 7.0f, 9.0f, 9.0f}).expand({1, kPoints, 4}).clone();
  const Assignment given = said.given({}, target_of({{{2, 0.25f, 0.25f, 0.05f, 0.05f}}}));
  EXPECT_GT(given.weight.sum().item<double>(), 0);
}

// A model that overflows has a loss that is no number, rather than nothing that counts.
TEST(Yolo, WhatIsNoNumberStaysSoInTheWeights) {
  const torch::Tensor target = target_of({{{0, 0.5f, 0.5f, 0.6f, 0.6f}}});
  Said sound, logits, boxes;
  logits.bins_and_logits.narrow(2, 4 * kYoloBins, kClasses).fill_(std::numeric_limits<float>::quiet_NaN());
  boxes.boxes = at::full_like(boxes.boxes, std::numeric_limits<float>::quiet_NaN());
  EXPECT_TRUE(sound.given({}, target).weight.isfinite().all().item<bool>());
  EXPECT_TRUE(logits.given({}, target).weight.isnan().any().item<bool>());
  EXPECT_TRUE(boxes.given({}, target).weight.isnan().any().item<bool>());
}

TEST(Yolo, OfBoxesThatAPointOverlapsAlikeTheFirstHasIt) {
  const torch::Tensor target =
      target_of({{{2, 0.25f, 0.25f, 0.5f, 0.5f}, {1, 0.25f, 0.25f, 0.5f, 0.5f}, kNone}});
  for (const int64_t at_once : {int64_t{1}, 2 * kPoints, int64_t{1} << 20}) {
    const Assignment given = Said().given({.points_of_a_box = 100, .elements_at_once = at_once}, target);
    EXPECT_GT(given.scores.select(2, 2).sum().item<double>(), 0);
    EXPECT_EQ(given.scores.select(2, 1).sum().item<double>(), 0) << at_once;
  }
}

TEST(Yolo, AssignmentIsTheSameImageByImage) {
  torch::manual_seed(4);
  const YoloOutput output = YoloOutput::of(random_prediction(5), "");
  torch::Tensor target = torch::rand({5, 7, 5}) * 0.5 + 0.2;
  target.select(2, 0) = torch::randint(-1, kClasses, {5, 7});
  const Assignment whole = assign_points({}, output, output.boxes(), target);
  const Assignment each = assign_points({.elements_at_once = 7 * kPoints}, output, output.boxes(), target);
  EXPECT_GT(whole.weight.sum().item<double>(), 0);
  EXPECT_TRUE(whole.scores.equal(each.scores) && whole.weight.equal(each.weight));
}

// Point by point and box by box, in doubles: what each point is told to say, of which class.
std::map<int64_t, std::pair<int64_t, double>> assigned(const YoloOutput& output, const torch::Tensor& boxes,
                                                       const torch::Tensor& targets, int64_t most) {
  struct Wish {
    int64_t box;
    double metric, overlap;
  };
  std::map<int64_t, Wish> owners;
  const torch::Tensor truth = edges_of(targets.narrow(1, 1, 4) * 32);
  std::vector<std::map<int64_t, Wish>> wishes(static_cast<size_t>(targets.size(0)));
  for (int64_t b = 0; b < targets.size(0); ++b) {
    const auto category = static_cast<int64_t>(targets[b][0].item<float>());
    if (category < 0) continue;
    std::vector<std::pair<double, int64_t>> ranked;
    for (int64_t p = 0; p < kPoints; ++p) {
      bool inside = true;
      for (int64_t axis = 0; axis < 2; ++axis) {
        const double off = output.places[p][axis].item<double>() - targets[b][1 + axis].item<double>() * 32;
        const double half =
            std::max(targets[b][3 + axis].item<double>() * 16, output.strides[p][0].item<double>() / 2);
        inside = inside && std::abs(off) <= half;
      }
      const double overlap = box_iou(truth[b], boxes[p]).item<double>();
      const double score = at::sigmoid(output.logits[0][p][category]).item<double>();
      if (inside) ranked.emplace_back(score * std::pow(overlap, 6), p);
    }
    std::ranges::sort(ranked, std::greater<>());
    ranked.resize(std::min<size_t>(ranked.size(), static_cast<size_t>(most)));
    for (const auto& [metric, p] : ranked)
      wishes[static_cast<size_t>(b)][p] = {b, metric, box_iou(truth[b], boxes[p]).item<double>()};
  }
  for (const auto& of_box : wishes)
    for (const auto& [p, wish] : of_box)
      if (const auto known = owners.find(p); known == owners.end() || known->second.overlap < wish.overlap)
        owners.insert_or_assign(p, wish);
  std::map<int64_t, std::pair<int64_t, double>> told;
  for (const auto& [p, own] : owners) {
    double best_metric = 0, best_overlap = 0;
    for (const auto& [other, wish] : owners) {
      if (wish.box != own.box) continue;
      best_metric = std::max(best_metric, wish.metric);
      best_overlap = std::max(best_overlap, wish.overlap);
    }
    if (own.metric > 0)
      told[p] = {static_cast<int64_t>(targets[own.box][0].item<float>()),
                 own.metric / best_metric * best_overlap};
  }
  return told;
}

TEST(Yolo, CrowdedImagesAreAssignedAsPointByPointHoweverManyBoxesAtOnce) {
  torch::manual_seed(6);
  const YoloOutput output = YoloOutput::of(random_prediction(1), "");
  torch::Tensor target = torch::rand({1, 40, 5}) * 0.5 + 0.2;
  target.select(2, 0) = torch::randint(-1, kClasses, {1, 40});
  const torch::Tensor boxes = output.boxes();
  const auto told = assigned(output, boxes[0], target[0], 5);
  EXPECT_GT(told.size(), 5U);
  for (const int64_t elements : {int64_t{1}, 7 * kPoints, int64_t{1} << 20}) {
    const Assignment given =
        assign_points({.points_of_a_box = 5, .elements_at_once = elements}, output, boxes, target);
    for (int64_t p = 0; p < kPoints; ++p) {
      const auto wanted = told.find(p);
      EXPECT_NEAR(given.weight[0][p].item<double>(), wanted == told.end() ? 0 : wanted->second.second, 1e-4)
          << p;
      if (wanted == told.end()) continue;
      EXPECT_EQ(given.scores[0][p].argmax().item<int64_t>(), wanted->second.first) << p;
    }
  }
}

// ------------------------------------------------------------------ loss

TEST(Yolo, LossAndWeightAreSumsOverImages) {
  torch::manual_seed(2);
  const Loss loss = yolo_loss();
  const torch::Tensor prediction = random_prediction(4);
  torch::Tensor target = torch::rand({4, 6, 5}) * 0.5 + 0.2;
  target.select(2, 0) = torch::randint(-1, kClasses, {4, 6});
  target[3].select(1, 0).fill_(-1);  // an image of nothing
  double sum = 0, weight = 0;
  for (int64_t i = 0; i < 4; ++i) {
    const LossTerms terms = loss.terms(prediction.slice(0, i, i + 1), target.slice(0, i, i + 1));
    sum += terms.sum.item<double>();
    weight += terms.weight.item<double>();
    EXPECT_EQ(terms.weight.item<double>() > 0, i < 3) << "of image " << i;
  }
  const LossTerms whole = loss.terms(prediction, target);
  EXPECT_NEAR(whole.sum.item<double>(), sum, 1e-4 * sum);
  EXPECT_NEAR(whole.weight.item<double>(), weight, 1e-6 * weight);
}

TEST(Yolo, AnImageOfNothingLowersAllScores) {
  torch::Tensor prediction = random_prediction(1).requires_grad_();
  const LossTerms terms = yolo_loss().terms(prediction, target_of({{kNone, kNone}}));
  terms.sum.backward();
  EXPECT_GT(terms.sum.item<double>(), 0);
  EXPECT_EQ(terms.weight.item<double>(), 0);
  const torch::Tensor gradient = prediction.grad();
  EXPECT_TRUE(gradient.narrow(2, 4 * kYoloBins, kClasses).gt(0).all().item<bool>());
  EXPECT_EQ(gradient.narrow(2, 0, 4 * kYoloBins).abs().sum().item<double>(), 0);
}

TEST(Yolo, RowsThatFillUpCountForNothing) {
  const torch::Tensor prediction = random_prediction(1);
  const std::vector<float> box = {1, 0.4f, 0.5f, 0.5f, 0.5f};
  const LossTerms one = yolo_loss().terms(prediction, target_of({{box}}));
  const LossTerms filled = yolo_loss().terms(prediction, target_of({{kNone, box, kNone}}));
  EXPECT_EQ(one.sum.item<double>(), filled.sum.item<double>());
  EXPECT_EQ(one.weight.item<double>(), filled.weight.item<double>());
}

TEST(Yolo, GradientsAreFiniteForExtremePredictions) {
  for (const float value : {-200.0f, 200.0f}) {
    torch::Tensor prediction = prediction_of(torch::full({1, kPoints, 4 * kYoloBins + kClasses}, value));
    prediction.narrow(2, 0, 1).fill_(-value);
    prediction.requires_grad_();
    yolo_loss().terms(prediction, target_of({{{0, 0.5f, 0.5f, 0.2f, 0.4f}}})).sum.backward();
    EXPECT_TRUE(prediction.grad().isfinite().all().item<bool>()) << value;
  }
}

TEST(Yolo, OtherPredictionsAndTargetsAreRefused) {
  test::expect_error(ExitCode::kBadRecipe, [] {
    yolo_loss().terms(torch::zeros({2, 7}), torch::zeros({2, 1, 5}));
  });
  test::expect_error(ExitCode::kBadRecipe,
                     [] { yolo_loss().terms(random_prediction(2), torch::zeros({2}, torch::kInt64)); });
  // As of a model from elsewhere, whose last numbers are no points.
  test::expect_error(ExitCode::kBadRecipe, [] {
    yolo_loss().terms(torch::zeros({2, kPoints, 4 * kYoloBins + kClasses + kPointColumns}),
                      target_of({{kNone}, {kNone}}));
  });
}

// A model from elsewhere may predict fewer classes than the data have.
TEST(Yolo, TargetsOfClassesThatTheModelDoesNotPredictAreRefused) {
  const torch::Tensor prediction = random_prediction(1),
                      target = target_of({{{kClasses, 0.5f, 0.5f, 0.5f, 0.5f}}});
  for (const std::function<void()>& use :
       std::vector<std::function<void()>>{[&] { yolo_loss().terms(prediction, target); },
                                          [&] { yolo_loss().metrics.at(0)->measure(prediction, target); }}) {
    const Error error = test::expect_error(ExitCode::kBadData, use);
    EXPECT_TRUE(test::holds(error.what(), "have the class 3, and the model predicts 3 classes"))
        << error.what();
  }
}

// ------------------------------------------------------------------ model and metric

double figure(const std::vector<Figure>& figures, const std::string& name) {
  for (const Figure& each : figures) {
    if (each.name == name) return each.value;
  }
  throw std::logic_error("no figure " + name);
}

// What a model says that is right of everything: boxes of 16 × 16 and 16 × 8 pixels around points.
TEST(Yolo, RightBoxesMeasureOne) {
  torch::Tensor said = torch::zeros({2, kPoints, 4 * kYoloBins + kClasses});
  said.narrow(2, 4 * kYoloBins, kClasses).fill_(-9);
  const auto say = [&](int64_t image, int64_t point, int64_t category,
                       const std::vector<int64_t>& distances) {
    for (int64_t edge = 0; edge < 4; ++edge)
      said[image][point][edge * kYoloBins + distances[static_cast<size_t>(edge)]] = 60;
    said[image][point][4 * kYoloBins + category] = 4;
  };
  say(0, 16, 1, {0, 0, 1, 1});  // of stride 16, at (8, 8)
  say(1, 5, 2, {1, 0, 1, 1});   // of stride 8, at (12, 12)
  const torch::Tensor target =
      target_of({{{1, 0.5f, 0.5f, 0.5f, 0.5f}, kNone}, {{2, 0.375f, 0.5f, 0.5f, 0.25f}, kNone}});
  const auto metric = yolo_loss().metrics.at(0);
  const MetricState state = metric->measure(prediction_of(said), target);
  const std::vector<Figure> figures = metric->figures(state);
  EXPECT_NEAR(figure(figures, "map"), 1, 1e-9);
  EXPECT_NEAR(figure(figures, "map_small"), 1, 1e-9);
  EXPECT_TRUE(std::isnan(figure(figures, "map_large")));
  const std::vector<FigureTable> tables = metric->tables(state);
  EXPECT_EQ(tables.at(0).cells.at(2).at(0), 1) << "an object of class 2";
  EXPECT_EQ(tables.at(2).cells.at(1).at(1), 1);
}

// Of a letterboxed image, the left 12 columns of its sample: what is found beyond is not there.
TEST(Yolo, FoundBoxesEndWhereTheirImageDoes) {
  torch::Tensor said = torch::zeros({2, kPoints, 4 * kYoloBins + kClasses});
  said.narrow(2, 4 * kYoloBins, kClasses).fill_(-9);
  const auto say = [&](int64_t point, const std::vector<int64_t>& distances, float score) {
    for (int64_t edge = 0; edge < 4; ++edge)
      said[0][point][edge * kYoloBins + distances[static_cast<size_t>(edge)]] = 60;
    said[0][point][4 * kYoloBins + 1] = score;
  };
  say(4, {0, 0, 2, 1}, 4);  // of stride 8, at (4, 12): 16 × 8 pixels, of which 8 are of the image
  say(5, {0, 0, 1, 1}, 5);  // at (12, 12): from 12 on, where the image has ended
  torch::Tensor target = torch::zeros({2, 1, kLongBoxColumns});
  target[0] = torch::tensor({1.0, 0.25, 0.5, 0.25, 0.25, 0.0, 64.0, 1.0, 0.0, 0.0, 1.0, 1.0});
  target[1][0][0] = -1;
  target[1][0][10] = 1, target[1][0][11] = 1;
  const auto metric = yolo_loss().metrics.at(0);
  const auto map = [&](double right) {
    target[0][0][10] = right;
    return figure(metric->figures(metric->measure(prediction_of(said), target)), "map");
  };
  EXPECT_LT(map(1), 0.9);
  EXPECT_NEAR(map(12.0 / 32), 1, 1e-9);
}

// The table of docs/detection.md, of 80 classes: | size | parameters | GFLOP at 160 | at 320 | at 640 |.
TEST(Yolo, SizesHaveTheParametersAndOperationsThatTheDocumentsSay) {
  const std::string document = test::slurp(std::filesystem::path(AUTOTRAIN_SOURCE_DIR) / "docs/detection.md");
  const torch::NoGradGuard no_gradients;
  for (const std::string size : {"n", "s", "m"}) {
    const auto model = make_model({"yolo", {{"size", size}}}, {{3, 160, 160}, 80, 0});
    model->eval();
    int64_t numbers = 0;
    for (const torch::Tensor& p : model->parameters()) numbers += p.numel();
    const double flops = count_forward(*model, [&] {
                           model->forward(torch::rand({1, 3, 160, 160}));
                         }).flops();
    // Strides divide all three sides, so that operations grow with the pixels.
    EXPECT_TRUE(
        test::holds(document, cat("| ", size, " | ", format_count(numbers), " | ", fixed(flops / 1e9, 3),
                                  " | ", fixed(4 * flops / 1e9, 3), " | ", fixed(16 * flops / 1e9, 3), " |")))
        << size << ": " << numbers << " parameters, " << flops << " operations";
  }
}

// Coloured rectangles on noise, red or blue, in images of 64 × 64.
Batch rectangles(int64_t n) {
  Batch batch{torch::rand({n, 3, 64, 64}) * 0.3, torch::full({n, 2, 5}, -1.0f), n};
  const auto draw = [](int64_t least, int64_t end) {
    return torch::randint(least, end, {1}).item<int64_t>();
  };
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t b = 0; b <= i % 2; ++b) {
      const int64_t height = draw(12, 30), width = draw(12, 30), top = draw(0, 64 - height),
                    left = 32 * b + draw(0, 32 - width), category = draw(0, 2);
      batch.inputs[i][2 * category].slice(0, top, top + height).slice(1, left, left + width).fill_(1);
      const std::vector<int64_t> doubled = {2 * left + width, 2 * top + height, 2 * width, 2 * height};
      batch.targets[i][b][0] = category;
      batch.targets[i][b].slice(0, 1) = torch::tensor(doubled) / 128.0;
    }
  }
  return batch;
}

TEST(Yolo, FindsTheRectanglesThatItLearned) {
  torch::manual_seed(4);
  const auto model = make_model({"yolo", {{"size", std::string("p")}}}, {{3, 64, 64}, 2, 0});
  const Loss loss = yolo_loss();
  torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(0.005));
  const Batch batch = rectangles(8);
  for (int update = 0; update < 120; ++update) {
    optimizer.zero_grad();
    const LossTerms terms = loss.terms(model->forward(batch.inputs), batch.targets);
    (terms.sum / terms.weight).backward();
    optimizer.step();
  }
  const torch::NoGradGuard no_gradients;
  const auto metric = loss.metrics.at(0);
  const auto figures = metric->figures(metric->measure(model->forward(batch.inputs), batch.targets));
  EXPECT_GT(figure(figures, "map50"), 0.9);
}

}  // namespace
}  // namespace autotrain
