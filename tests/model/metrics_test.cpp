#include "autotrain/metrics.h"

#include <nlohmann/json.hpp>

#include "autotrain/task.h"
#include "base/random.h"
#include "loop/evaluator.h"
#include "model/losses.h"
#include "model/metrics.h"
#include "model/ranking.h"
#include "report/figures_json.h"
#include "support/support.h"

namespace autotrain {
namespace {

using Json = nlohmann::ordered_json;

const Json& fixtures() {
  static const Json all =
      Json::parse(test::slurp(std::filesystem::path(AUTOTRAIN_FIXTURES) / "metrics.json"));
  return all;
}

torch::Tensor floats(const Json& rows) {
  std::vector<torch::Tensor> tensors;
  for (const Json& row : rows) tensors.push_back(torch::tensor(row.get<std::vector<float>>()));
  return torch::stack(tensors);
}

torch::Tensor integers(const Json& row) {
  return torch::tensor(row.get<std::vector<int64_t>>());
}

struct Case {
  TargetKind kind;
  torch::Tensor prediction, target;
};

Case case_of(const Json& json) {
  const std::string kind = json.at("kind");
  const torch::Tensor prediction = floats(json.at("prediction"));
  if (kind == "classes") return {TargetKind::kClasses, prediction, integers(json.at("target"))};
  return {kind == "labels" ? TargetKind::kLabels : TargetKind::kNumbers, prediction,
          floats(json.at("target"))};
}

// The metric over the data, cut into batches of so many samples.
Evaluation evaluate(const std::string& metric, const Case& data, int64_t batch, MetricOptions options = {}) {
  options.kind = data.kind;
  const auto made = make_metric(metric, options);
  EvaluationSums sums;
  for (int64_t at = 0; at < data.prediction.size(0); at += batch) {
    const torch::Tensor prediction = data.prediction.slice(0, at, at + batch);
    const LossTerms loss{torch::zeros({}), torch::ones({})};
    sums.add({loss, {{made, made->measure(prediction, data.target.slice(0, at, at + batch))}}});
  }
  return sums.result();
}

// "precision.3" is a figure of per_class.
std::string metric_of(const std::string& figure) {
  return figure.find('.') == std::string::npos ? figure : "per_class";
}

TEST(Metrics, AreScikitLearnsHoweverTheDataAreCut) {
  for (const Json& json : fixtures().at("metrics")) {
    const Case data = case_of(json);
    for (const auto& [name, wanted] : json.at("figures").items()) {
      for (const int64_t batch : {1, 7, 1000}) {
        const Evaluation found = evaluate(metric_of(name), data, batch);
        ASSERT_TRUE(found.figures.contains(name)) << name;
        EXPECT_NEAR(found.figures.at(name), wanted.get<double>(), 1e-6) << name << " in batches of " << batch;
        EXPECT_TRUE(found.kinds.contains(name));
      }
    }
  }
}

TEST(Metrics, AConfusionMatrixIsATable) {
  for (const Json& json : fixtures().at("metrics")) {
    if (!json.contains("confusion_matrix")) continue;
    const Evaluation found = evaluate("confusion_matrix", case_of(json), 9);
    ASSERT_EQ(found.tables.size(), 1u);
    EXPECT_EQ(found.tables[0].name, "confusion_matrix");
    EXPECT_EQ(found.tables[0].cells, json.at("confusion_matrix").get<std::vector<std::vector<double>>>());
  }
}

TEST(Metrics, BinnedAreasAreAsCloseAsTheySay) {
  for (const Json& json : fixtures().at("metrics")) {
    const Case data = case_of(json);
    if (data.kind == TargetKind::kNumbers) continue;
    for (const std::string name : {"roc_auc", "average_precision"}) {
      const Evaluation found = evaluate(name + "_binned", data, 16);
      const double exact = json.at("figures").at(name), error = found.figures.at(name + "_binned_error");
      EXPECT_LE(std::abs(found.figures.at(name + "_binned") - exact), error + 1e-9) << name;
      EXPECT_LT(error, 0.1) << "or it would say nothing";
    }
  }
}

// Any order within the bins must stay within the bounds.
TEST(Metrics, BoundsOfBinnedAreasHoldForRandomScores) {
  Random random(3);
  for (int round = 0; round < 300; ++round) {
    const auto below = [&](int64_t end) { return static_cast<size_t>(random.below(end)); };
    const size_t n = 2 + below(40), bins = 1 + below(6);
    std::vector<float> scores;
    std::vector<uint8_t> positive;
    std::vector<double> positives(bins), negatives(bins);
    for (size_t i = 0; i < n; ++i) {
      const size_t bin = below(static_cast<int64_t>(bins));
      scores.push_back(static_cast<float>(bin) + 0.01f * static_cast<float>(below(20)));
      positive.push_back(below(3) == 0);
      ++(positive.back() != 0 ? positives : negatives)[bin];
    }
    const Ranking exact = rank(scores, positive);
    const BinnedRanking binned = rank_bins(positives, negatives);
    const auto within = [](double value, const Bounded& bound) {
      return std::isnan(value) == std::isnan(bound.value) &&
             (std::isnan(value) || std::abs(value - bound.value) <= bound.error + 1e-12);
    };
    EXPECT_TRUE(within(exact.roc_auc, binned.roc_auc)) << round;
    EXPECT_TRUE(within(exact.average_precision, binned.average_precision)) << round;
  }
}

TEST(Metrics, IgnoredTargetsCountForNothing) {
  const Json& json = fixtures().at("metrics").at(1);
  const Case data = case_of(json);
  const Case more{data.kind, torch::cat({data.prediction, torch::randn({9, data.prediction.size(1)})}),
                  torch::cat({data.target, torch::full({9}, -7)})};
  for (const auto& [name, wanted] : json.at("figures").items()) {
    const Evaluation found = evaluate(metric_of(name), more, 6, {.ignore_index = -7});
    EXPECT_NEAR(found.figures.at(name), wanted.get<double>(), 1e-6) << name;
  }
}

TEST(Metrics, TellWhichDirectionIsBetter) {
  const Case data = case_of(fixtures().at("metrics").at(1)),
             numbers = case_of(fixtures().at("metrics").back());
  EXPECT_EQ(evaluate("accuracy", data, 8).kinds.at("accuracy"),
            (FigureKind{.better = Better::kHigher, .share = true, .of_samples = true}));
  EXPECT_EQ(evaluate("perplexity", data, 8).kinds.at("perplexity").better, Better::kLower);
  EXPECT_EQ(evaluate("calibration_error", data, 8).kinds.at("calibration_error").better, Better::kLower);
  EXPECT_EQ(evaluate("r2", numbers, 8).kinds.at("r2"), (FigureKind{Better::kHigher, false, ""}));
  EXPECT_EQ(evaluate("mean_squared_error", numbers, 8).kinds.at("mean_squared_error").better, Better::kLower);
}

TEST(Metrics, AShareIsOfSamplesWhereEachHasOneTargetThatCounts) {
  const auto of_samples = [](const std::string& metric, const Case& data, MetricOptions options = {}) {
    return evaluate(metric, data, 4, options).kinds.at(metric).of_samples;
  };
  const torch::Tensor target = torch::arange(12) % 5;
  const Case classes{TargetKind::kClasses, torch::randn({12, 5}), target};
  const Case tokens{TargetKind::kClasses, torch::randn({12, 3, 5}), target.unsqueeze(1).repeat({1, 3})};
  const Case pixels{TargetKind::kClasses, torch::randn({12, 5, 4, 6}),
                    torch::ones({12, 4, 6}, torch::kInt64)};
  for (const char* const metric : {"accuracy", "top2"}) {
    EXPECT_TRUE(of_samples(metric, classes)) << metric;
    EXPECT_FALSE(of_samples(metric, classes, {.ignore_index = 2})) << metric << ", some counted for nothing";
    EXPECT_FALSE(of_samples(metric, tokens)) << metric;
    EXPECT_FALSE(of_samples(metric, pixels)) << metric;
  }
  const Case two{TargetKind::kClasses, torch::randn({12, 2}), torch::arange(12) % 2};
  for (const char* const metric : {"macro_f1", "calibration_error", "roc_auc", "average_precision"})
    EXPECT_FALSE(of_samples(metric, two)) << metric;
}

TEST(Metrics, WhatDataCannotTellIsNotANumber) {
  const Case one_class{TargetKind::kClasses, torch::randn({4, 2}), torch::zeros({4}, torch::kInt64)};
  EXPECT_TRUE(std::isnan(evaluate("roc_auc", one_class, 2).figures.at("roc_auc")));
  EXPECT_TRUE(std::isnan(evaluate("per_class", one_class, 2).figures.at("recall.1")));
  const Case broken{TargetKind::kClasses, torch::full({4, 2}, NAN), torch::tensor({0, 1, 0, 1})};
  EXPECT_TRUE(std::isnan(evaluate("roc_auc", broken, 2).figures.at("roc_auc")));
}

TEST(Metrics, PredictionsThatAreNoNumbersEndNoEvaluation) {
  const Case broken{TargetKind::kClasses, torch::full({4, 3}, NAN), torch::tensor({0, 1, 2, 1})};
  for (const char* name : {"calibration_error", "roc_auc_binned", "average_precision_binned", "macro_f1"}) {
    EXPECT_NO_THROW(evaluate(name, broken, 2)) << name;
  }
}

// Kernels that look for the largest logit take one that is not a number for it.
TEST(Metrics, PredictionsThatAreNoNumbersHaveNoFigures) {
  torch::Tensor logits = torch::randn({8, 4});
  logits[5] = NAN;
  const torch::Tensor truth = torch::tensor({0, 1, 2, 3, 0, 0, 2, 3}), labels = torch::ones({8, 4});
  const Case classes{TargetKind::kClasses, logits, truth}, of_labels{TargetKind::kLabels, logits, labels};
  for (const char* const name :
       {"accuracy", "top2", "macro_precision", "macro_recall", "macro_f1", "micro_f1", "mean_iou"})
    EXPECT_TRUE(std::isnan(evaluate(name, classes, 3).figures.at(name))) << name;
  for (const char* const name : {"label_accuracy", "macro_precision", "macro_recall", "macro_f1", "micro_f1"})
    EXPECT_TRUE(std::isnan(evaluate(name, of_labels, 3).figures.at(name))) << name;
  EXPECT_TRUE(std::isnan(evaluate("per_class", classes, 3).figures.at("recall.0")));
  double counted = 0;
  const auto confusion = evaluate("confusion_matrix", classes, 3).tables;
  for (const auto& row : confusion.at(0).cells)
    for (const double cell : row) counted += cell;
  EXPECT_EQ(counted, 7);
  for (const char* const name : {"accuracy", "top2", "macro_f1"}) {
    EXPECT_FALSE(std::isnan(evaluate(name, classes, 3, {.ignore_index = 0}).figures.at(name)))
        << name << ": targets that count for nothing have no part in it";
  }
}

TEST(Metrics, BinsOfTooManyClassesAreRefusedByName) {
  const Case vocabulary{TargetKind::kClasses, torch::randn({2, 50'257}), torch::tensor({0, 50'256})};
  for (const char* name : {"roc_auc_binned", "average_precision_binned"}) {
    const Error error = test::expect_error(ExitCode::kBadRecipe, [&] { evaluate(name, vocabulary, 1); });
    EXPECT_TRUE(test::holds(error.problem(), name));
    EXPECT_TRUE(test::holds(error.problem(), "50,257"));
  }
}

// As sklearn.metrics.r2_score counts it.
TEST(Metrics, AConstantTargetIsExplainedWhollyOrNotAtAll) {
  const torch::Tensor target = torch::full({1000, 1}, 0.1f);
  const auto r2 = [](const torch::Tensor& prediction, const torch::Tensor& truth) {
    return evaluate("r2", Case{TargetKind::kNumbers, prediction, truth}, 7).figures.at("r2");
  };
  EXPECT_EQ(r2(torch::randn({1000, 1}), target), 0);
  EXPECT_EQ(r2(target.clone(), target), 1);
  EXPECT_TRUE(std::isnan(r2(torch::full({1000, 1}, NAN), target)));
  const torch::Tensor varies = torch::randn({1000, 1});
  EXPECT_EQ(r2(torch::cat({varies, torch::randn({1000, 1})}, 1), torch::cat({varies, target}, 1)), 0.5)
      << "one constant output does not hide the others";
}

// Against the sum over distances from the mean, in which nothing cancels.
TEST(Metrics, AVarianceThatIsTinyBesideTheMeanIsExplainedToo) {
  for (const auto& [mean, deviation] : {std::pair{1e6, 1.0}, {1e4, 0.03}, {-3e7, 40.0}, {0.0, 1.0}}) {
    torch::manual_seed(5);
    const torch::Tensor target =
        (torch::randn({20'000, 1}, torch::kFloat64) * deviation + mean).to(torch::kFloat32);
    const torch::Tensor prediction = target + torch::randn({20'000, 1}) * (deviation / 2);
    const torch::Tensor exact = target.to(torch::kFloat64);
    const double spread = (exact - exact.mean()).square().sum().item<double>(),
                 error = (prediction.to(torch::kFloat64) - exact).square().sum().item<double>();
    const double r2 = evaluate("r2", Case{TargetKind::kNumbers, prediction, target}, 7).figures.at("r2");
    EXPECT_NEAR(r2, 1 - error / spread, 1e-9) << mean;
  }
  torch::Tensor nearly = torch::full({20'000, 1}, 1e6f);
  nearly[3] = 1e6f + 1;
  const torch::Tensor mean = torch::full({20'000, 1}, 1e6f);
  EXPECT_NEAR(evaluate("r2", Case{TargetKind::kNumbers, mean, nearly}, 7).figures.at("r2"), -5e-5, 1e-6);
}

TEST(Metrics, SoftLabelsAreTrueFromAHalfOn) {
  const torch::Tensor hard = (torch::randn({60, 3}) > 0).to(torch::kFloat32), soft = hard * 0.8 + 0.1;
  const torch::Tensor prediction = torch::randn({60, 3}) + 2 * hard - 1;
  for (const char* name : {"macro_f1", "micro_f1", "macro_precision", "macro_recall", "mean_iou",
                           "label_accuracy", "roc_auc", "average_precision", "roc_auc_binned"}) {
    const auto of = [&](const torch::Tensor& target) {
      return evaluate(name, Case{TargetKind::kLabels, prediction, target}, 7).figures.at(name);
    };
    EXPECT_EQ(of(soft), of(hard)) << name;
  }
}

TEST(Metrics, LabelsOfPixelsAreRankedAsRows) {
  const torch::Tensor prediction = torch::randn({6, 2, 5, 4}),
                      target = (torch::randn({6, 2, 5, 4}) > 0).to(torch::kFloat32);
  const auto rows = [](const torch::Tensor& x) { return x.movedim(1, -1).reshape({-1, 2}); };
  for (const char* name : {"roc_auc", "average_precision", "roc_auc_binned", "average_precision_binned"}) {
    const Case pixels{TargetKind::kLabels, prediction, target},
        flat{TargetKind::kLabels, rows(prediction), rows(target)};
    EXPECT_DOUBLE_EQ(evaluate(name, pixels, 2).figures.at(name), evaluate(name, flat, 40).figures.at(name))
        << name;
  }
}

TEST(Metrics, TablesSurviveCellsThatAreNoNumbers) {
  const std::vector<FigureTable> tables = {{"t", "r", "c", {{1, NAN}, {0, 2}}}};
  const auto read = tables_from_json(Json::parse(tables_to_json(tables).dump()));
  ASSERT_EQ(read.size(), 1u);
  EXPECT_TRUE(std::isnan(read[0].cells[0][1]));
  EXPECT_EQ(read[0].cells[1], (std::vector<double>{0, 2}));
}

TEST(Metrics, TopKOfFewClassesIsLeftOut) {
  const Case data = case_of(fixtures().at("metrics").at(1));
  EXPECT_TRUE(evaluate("top4", data, 8).figures.contains("top4"));
  EXPECT_FALSE(evaluate("top5", data, 8).figures.contains("top5"));
}

TEST(Metrics, UnknownOnesAreNamedWithThoseThereAre) {
  const auto made = [](const std::string& name, TargetKind kind) {
    return test::expect_error(ExitCode::kBadRecipe, [&] { make_metric(name, {.kind = kind}); });
  };
  EXPECT_TRUE(test::holds(made("f1", TargetKind::kClasses).what(), "macro_f1"));
  EXPECT_TRUE(test::holds(made("top0", TargetKind::kClasses).what(), "not a metric"));
  EXPECT_TRUE(test::holds(made("topK", TargetKind::kClasses).what(), "not a metric"));
  EXPECT_TRUE(test::holds(made("r2", TargetKind::kClasses).what(), "does not go with"));
}

TEST(Metrics, ATaskMustMeasureTheSameOfEveryBatch) {
  const LossTerms loss{torch::zeros({}), torch::ones({})};
  const Measured nll = mean_figure("nll", {}, torch::ones({}), torch::ones({}));
  EvaluationSums sums;
  sums.add({loss, {nll}});
  test::expect_error(ExitCode::kBrokenContract, [&] { sums.add({loss, {}}); });
  EvaluationSums twice;
  twice.add({loss, {nll, nll}});
  test::expect_error(ExitCode::kBrokenContract, [&] { twice.result(); });
}

// A metric of a user's own: its tables have one name, or reading its figures fails.
class UsersMetric final : public Metric {
 public:
  explicit UsersMetric(bool throws) : throws_(throws) {}
  std::vector<Figure> figures(const MetricState&) const override {
    if (throws_) throw std::out_of_range("no such row");
    return {};
  }
  std::vector<FigureTable> tables(const MetricState&) const override {
    return {{.name = "t"}, {.name = "t"}};
  }

 private:
  bool throws_;
};

TEST(Metrics, AMistakeInAUsersMetricIsTheirs) {
  for (const auto& [throws, said] : {std::pair{true, "no such row"}, {false, "two tables"}}) {
    EvaluationSums sums;
    sums.add({{torch::zeros({}), torch::ones({})},
              {{std::make_shared<UsersMetric>(throws), {.sums = {torch::ones({})}}}}});
    const Error error = test::expect_error(ExitCode::kBrokenContract, [&] { sums.result(); });
    EXPECT_TRUE(test::holds(error.what(), said));
  }
}

TEST(Metrics, AllAreInTheDocument) {
  const std::string text = test::slurp(std::filesystem::path(AUTOTRAIN_SOURCE_DIR) / "docs" / "metrics.md");
  for (const MetricRow& row : metric_table()) EXPECT_TRUE(test::holds(text, "`" + row.spec.name + "`"));
  for (const LossRow& row : loss_table()) EXPECT_TRUE(test::holds(text, "`" + row.spec.name + "`"));
}

// ------------------------------------------------------------------ losses

Choice choice_of(const Json& json) {
  Choice choice{json.at("name"), {}};
  for (const auto& [key, value] : json.at("parameters").items()) {
    choice.parameters[key] =
        value.is_array() ? Value(value.get<std::vector<double>>()) : Value(value.get<double>());
  }
  return choice;
}

torch::Tensor targets_of(const Json& all, const std::string& kind) {
  return kind == "classes" ? integers(all.at(kind)) : floats(all.at(kind));
}

TEST(Losses, ArePyTorchsInValueAndGradientHoweverCut) {
  const Json& all = fixtures().at("losses");
  for (const Json& json : all.at("cases")) {
    const Loss loss = make_loss(choice_of(json));
    const torch::Tensor targets = targets_of(all, json.at("targets"));
    for (const int64_t batch : {5, 12}) {
      const torch::Tensor prediction = floats(all.at("prediction")).requires_grad_();
      double sum = 0, weight = 0;
      for (int64_t at = 0; at < 12; at += batch) {
        const LossTerms terms =
            loss.terms(prediction.slice(0, at, at + batch), targets.slice(0, at, at + batch));
        terms.sum.backward();
        sum += terms.sum.item<double>();
        weight += terms.weight.item<double>();
      }
      const std::string what = json.at("name").get<std::string>() + json.at("parameters").dump();
      EXPECT_NEAR(sum / weight, json.at("value").get<double>(), 1e-6) << what;
      EXPECT_TRUE(torch::allclose(prediction.grad() / weight, floats(json.at("gradient")), 1e-5, 1e-7))
          << what;
    }
  }
}

TEST(Losses, WeightsOfAnotherNumberOfClassesAreRefused) {
  const Loss loss = cross_entropy({.class_weights = {1, 2}});
  const Error error = test::expect_error(ExitCode::kBadRecipe, [&] {
    loss.terms(torch::randn({2, 3}), torch::tensor({0, 1}));
  });
  EXPECT_TRUE(test::holds(error.what(), "there are 3 classes"));
}

TEST(Losses, AnIgnoredTargetMayBeAnyNumberBesideClassWeights) {
  const Loss loss = cross_entropy({.ignore_index = 255, .class_weights = {1, 2, 3}});
  const torch::Tensor logits = torch::randn({3, 3});
  const LossTerms terms = loss.terms(logits, torch::tensor({0, 255, 2}));
  EXPECT_EQ(terms.weight.item<double>(), 4);
}

TEST(Losses, FocalGradientsAreFiniteForSurePredictions) {
  for (const double gamma : {0.5, 1.0, 2.0}) {
    const torch::Tensor logits = torch::tensor({{60.0f, 0.0f}, {0.0f, 1.0f}}).requires_grad_();
    cross_entropy({.focal_gamma = gamma}).terms(logits, torch::tensor({0, 1})).sum.backward();
    EXPECT_TRUE(logits.grad().isfinite().all().item<bool>()) << gamma;
  }
}

TEST(Losses, MetricsThatWereAskedForReplaceThoseByDefault) {
  const Loss loss = make_loss({"cross_entropy", {}}, std::vector<std::string>{"macro_f1"});
  ASSERT_EQ(loss.metrics.size(), 1u);
  test::expect_error(ExitCode::kBadRecipe, [] {
    make_loss({"cross_entropy", {}}, std::vector<std::string>{"accuracy", "accuracy"});
  });
  test::expect_error(ExitCode::kBadRecipe, [] {
    make_loss({"detection", {}}, std::vector<std::string>{"macro_f1"});
  });
  test::expect_error(ExitCode::kBadRecipe, [] {
    make_loss({"huber", {}}, std::vector<std::string>{"accuracy"});
  });
}

}  // namespace
}  // namespace autotrain
