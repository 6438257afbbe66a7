#include "predict/prediction_rows.h"

#include <cmath>
#include <limits>

#include "support/support.h"

namespace autotrain {
namespace {

using Kind = PredictionKind;
using Format = PredictionFormat;

constexpr float kNone = std::numeric_limits<float>::quiet_NaN();

PredictionRows rows_of(Kind kind, const torch::Tensor& told, RowOptions options = {}) {
  options.samples = told.size(0);
  return {kind, told.slice(0, 0, 1), std::move(options)};
}

torch::Tensor numbers(std::vector<float> values, int64_t columns) {
  return torch::tensor(values).view({-1, columns});
}

TEST(PredictionRows, TheLikeliestClassesComeFirstAndOfEqualOnesTheSmallestNumber) {
  const torch::Tensor logits = numbers({0, 2, 2, 1, 5, 0, 0, 0}, 4);
  const PredictionRows rows = rows_of(Kind::kClasses, logits, {.top = 3});
  EXPECT_EQ(rows.header(), "sample,class,probability,class_2,probability_2,class_3,probability_3\r\n");
  const std::string text = rows.rows(7, logits);
  const torch::Tensor p = at::softmax(logits, 1);
  const auto digits = [&](int64_t row, int64_t column) {
    std::ostringstream out;
    out << std::setprecision(9) << p[row][column].item<float>();
    return std::stof(out.str());
  };
  int64_t sample = 0, first = 0, second = 0, third = 0;
  float a = 0, b = 0, c = 0;
  ASSERT_EQ(
      std::sscanf(text.c_str(), "%ld,%ld,%f,%ld,%f,%ld,%f", &sample, &first, &a, &second, &b, &third, &c), 7)
      << text;
  EXPECT_EQ((std::vector{sample, first, second, third}), (std::vector<int64_t>{7, 1, 2, 3}));
  EXPECT_EQ(a, digits(0, 1));  // the digits read back as the same float32
  EXPECT_EQ(b, digits(0, 2));
  EXPECT_EQ(c, digits(0, 3));
  EXPECT_TRUE(test::holds(text, "\r\n8,0,"));
}

TEST(PredictionRows, TheFirstOfTheLikeliestIsWhatArgmaxTakes) {
  torch::manual_seed(5);
  for (int round = 0; round < 200; ++round) {
    const torch::Tensor logits = at::randn({4, 1 + round % 9}).mul(2).round();  // so that many are equal
    const std::string text = rows_of(Kind::kClasses, logits).rows(0, logits);
    const torch::Tensor expected = logits.argmax(1);
    size_t at = 0;
    for (int64_t i = 0; i < 4; ++i) {
      long long sample = -1, found = -1;
      ASSERT_EQ(std::sscanf(text.c_str() + at, "%lld,%lld,", &sample, &found), 2);
      EXPECT_EQ(found, expected[i].item<int64_t>()) << logits[i];
      at = text.find("\r\n", at) + 2;
    }
  }
}

TEST(PredictionRows, JsonHasTheColumnsOfCsvWithNamesOfClassesAndFiles) {
  const torch::Tensor logits = numbers({0, 50}, 2);
  const RowOptions options{
      .format = Format::kJsonl,
      .probabilities = true,
      .class_names = {"cat", "dog \"x\""},
      .sample_name = [](int64_t sample) { return "f" + std::to_string(sample) + ".png"; }};
  const PredictionRows rows = rows_of(Kind::kClasses, logits, options);
  EXPECT_EQ(rows.header(), "");
  EXPECT_TRUE(
      test::holds(rows.rows(3, logits),
                  R"({"sample":3,"file":"f3.png","class":1,"name":"dog \"x\"","probability":1,"p_cat":)"));
}

TEST(PredictionRows, OutputsThatAreNoNumbersTellNoClass) {
  const torch::Tensor logits = numbers({1, 2, 0, kNone, 4, 0}, 3);
  RowOptions options{.top = 2};
  EXPECT_TRUE(test::holds(rows_of(Kind::kClasses, logits, options).rows(0, logits), "\r\n1,,,,\r\n"));
  options = {.format = Format::kJsonl, .class_names = {"cat", "dog", "owl"}};
  EXPECT_TRUE(test::holds(rows_of(Kind::kClasses, logits, options).rows(0, logits),
                          R"({"sample":1,"class":null,"name":null,"probability":null})"));
}

TEST(PredictionRows, WhatIsNoNumberIsEmptyInCsvAndNullInJson) {
  const torch::Tensor values = numbers({1.5F, kNone, std::numeric_limits<float>::infinity()}, 3);
  EXPECT_EQ(rows_of(Kind::kNumbers, values).rows(0, values), "0,1.5,,\r\n");
  EXPECT_EQ(rows_of(Kind::kNumbers, values, {.format = Format::kJsonl}).rows(0, values),
            "{\"sample\":0,\"value_0\":1.5,\"value_1\":null,\"value_2\":null}\n");
}

TEST(PredictionRows, NamesThatCsvMustQuoteAreQuoted) {
  const torch::Tensor values = numbers({1}, 1);
  const RowOptions options{.sample_name = [](int64_t) { return std::string("a,\"b\"\n.png"); }};
  EXPECT_EQ(rows_of(Kind::kNumbers, values, options).rows(0, values), "0,\"a,\"\"b\"\"\n.png\",1\r\n");
}

TEST(PredictionRows, AnArrayIsItsHeaderAndTheNumbers) {
  const torch::Tensor values = torch::arange(12, torch::kFloat32).view({2, 2, 3});
  const PredictionRows rows = rows_of(Kind::kRaw, values, {.format = Format::kNpy});
  const std::string header = rows.header();
  EXPECT_EQ(header.size() % 64, 0U);
  EXPECT_TRUE(test::holds(header, "'shape': (2, 2, 3, )"));
  EXPECT_EQ(header.back(), '\n');
  const std::string bytes = rows.rows(0, values);
  ASSERT_EQ(bytes.size(), 48U);
  EXPECT_EQ(std::memcmp(bytes.data(), values.const_data_ptr(), 48), 0);
}

TEST(PredictionRows, LabelsHaveAProbabilityEach) {
  const torch::Tensor logits = numbers({0, 0}, 2);
  EXPECT_EQ(rows_of(Kind::kLabels, logits).header(), "sample,p_0,p_1\r\n");
  EXPECT_EQ(rows_of(Kind::kLabels, logits).rows(0, logits), "0,0.5,0.5\r\n");
}

// Of one label the class 0 is that it does not hold.
TEST(PredictionRows, TheProbabilityOfOneLabelIsNotCalledThatOfNought) {
  const torch::Tensor logits = numbers({50}, 1);
  EXPECT_EQ(rows_of(Kind::kLabels, logits).header(), "sample,probability\r\n");
  const PredictionRows named = rows_of(Kind::kLabels, logits, {.class_names = {"no", "yes"}});
  EXPECT_EQ(named.header(), "sample,p_yes\r\n");
  EXPECT_EQ(named.rows(0, logits), "0,1\r\n");
}

TEST(PredictionRows, ASequenceHasTheMeanLossOfTheTokensThatCount) {
  const torch::Tensor logits = at::randn({2, 3, 5});
  const torch::Tensor targets = torch::tensor({{1, 2, -100}, {-100, -100, -100}});
  const PredictionRule rule = prediction_rule({"cross_entropy", {}}, logits.slice(0, 0, 1), false);
  ASSERT_EQ(rule.kind, Kind::kSequences);
  const torch::Tensor told = told_of(rule, logits, {torch::zeros({2, 3}), targets, 2});
  const torch::Tensor log_p = at::log_softmax(logits[0], 1);
  const double expected = -(log_p[0][1].item<double>() + log_p[1][2].item<double>()) / 2;
  EXPECT_NEAR(told[0][0].item<double>(), expected, 1e-6);
  EXPECT_EQ(told[0][1].item<double>(), 2);
  const std::string text = rows_of(Kind::kSequences, told).rows(0, told);
  EXPECT_TRUE(test::holds(text, "\r\n1,0,,\r\n")) << "no token counts";
}

TEST(PredictionRows, WhatHasNoRowsIsRefusedUnlessRaw) {
  const torch::Tensor grid = torch::zeros({1, 4, 4, 8});
  for (const char* const loss : {"cross_entropy", "binary_cross_entropy", "detection"}) {
    const Error error = test::expect_error(ExitCode::kBadRecipe, [&] {
      prediction_rule({loss, {}}, grid, false);
    });
    EXPECT_TRUE(test::holds(error.hint(), ".npy"));
    EXPECT_EQ(prediction_rule({loss, {}}, grid, true).kind, Kind::kRaw);
  }
}

TEST(PredictionRows, OptionsThatDoNotGoWithTheKindAreRefused) {
  const torch::Tensor three = numbers({1, 2, 3}, 3);
  for (const int64_t top : {0, 4}) {
    test::expect_error(ExitCode::kUsage, [&] { rows_of(Kind::kClasses, three, {.top = top}); });
  }
  test::expect_error(ExitCode::kUsage, [&] { rows_of(Kind::kNumbers, three, {.top = 2}); });
  test::expect_error(ExitCode::kUsage, [&] { rows_of(Kind::kLabels, three, {.probabilities = true}); });
  for (const char* const name : {"a", "a.txt", "csv", "a.csv.gz", "a.CSV"})
    test::expect_error(ExitCode::kUsage, [&] { format_of(name); });
  EXPECT_EQ(format_of("x/a.b.jsonl"), Format::kJsonl);
}

}  // namespace
}  // namespace autotrain
