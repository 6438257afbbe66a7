#include <cmath>
#include <map>

#include "autotrain/log.h"
#include "data/datasets.h"
#include "support/samples.h"
#include "support/support.h"

namespace autotrain {
namespace {

using test::all_samples;
using test::TemporaryFolder;
using Keys = std::map<std::string, Value>;
using Texts = std::vector<std::string>;

std::unique_ptr<Dataset> table(const std::filesystem::path& file, Keys keys = {}) {
  keys["file"] = file.string();
  keys.try_emplace("target", std::string("y"));
  return make_dataset({Choice{"table", std::move(keys)}});
}

const Keys kAsTheyAre = {{"standardize", false}};

Keys with(Keys keys, const std::string& key, Value value) {
  keys[key] = std::move(value);
  return keys;
}

TEST(Table, NumbersAndCategoriesBecomeColumns) {
  const TemporaryFolder folder;
  const auto path = folder.write("t.csv", "a,colour,y,b\n1,red,yes,-2.5\n2, blue ,no,1e3\n3,red,yes,+4\n");
  const auto data = table(path, kAsTheyAre);
  EXPECT_EQ(data->info().kind, DatasetInfo::Kind::kVectors);
  EXPECT_EQ(data->info().input_shape, std::vector<int64_t>{4});
  EXPECT_EQ(data->info().classes, 2);
  const Batch batch = all_samples(*data);  // a, blue, red, b
  EXPECT_TRUE(batch.inputs.equal(
      torch::tensor({{1.F, 0.F, 1.F, -2.5F}, {2.F, 1.F, 0.F, 1000.F}, {3.F, 0.F, 1.F, 4.F}})));
  EXPECT_TRUE(batch.targets.equal(torch::tensor({1, 0, 1})));
}

TEST(Table, FeaturesAndCategoricalColumnsAreChosenByNameOrNumber) {
  const TemporaryFolder folder;
  const auto path = folder.write("t.csv", "a,b,y\n1,7,0\n2,5,1\n");
  const Keys keys = {{"features", Texts{"b", "1"}}, {"categorical", Texts{"a"}}, {"standardize", false}};
  const torch::Tensor expected = torch::tensor({{7.F, 1.F, 0.F}, {5.F, 0.F, 1.F}});
  EXPECT_TRUE(all_samples(*table(path, keys)).inputs.equal(expected));
  const auto headless = folder.write("h.csv", "1,7,0\n2,5,1\n");
  const Keys numbers = {{"features", Texts{"2", "1"}},
                        {"categorical", Texts{"1"}},
                        {"standardize", false},
                        {"header", false},
                        {"target", std::string("3")}};
  EXPECT_TRUE(all_samples(*table(headless, numbers)).inputs.equal(expected));
}

TEST(Table, NamesOfColumnsMayBeQuoted) {
  const TemporaryFolder folder;
  const std::string name = "a \"quoted\" name, too long to be kept inside a string object";
  const auto path = folder.write(
      "t.csv", "\"a \"\"quoted\"\" name, too long to be kept inside a string object\",y,b\n3,0,1\n");
  const Keys keys = {{"features", Texts{name}}, {"standardize", false}};
  EXPECT_EQ(all_samples(*table(path, keys)).inputs.item<float>(), 3);
}

TEST(Table, TheSeparatorFollowsTheExtensionUnlessItIsGiven) {
  const TemporaryFolder folder;
  const auto expect_two_columns = [&](const std::filesystem::path& path, const Keys& keys) {
    EXPECT_EQ(table(path, keys)->info().input_shape, std::vector<int64_t>{1}) << path;
  };
  expect_two_columns(folder.write("t.tsv", "a\ty\n1\t0\n2\t1\n"), {});
  expect_two_columns(folder.write("t.csv", "a;y\n1;0\n2;1\n"), {{"separator", std::string(";")}});
}

TEST(Table, StandardizedColumnsHaveMeanZeroAndDeviationOne) {
  const TemporaryFolder folder;
  const auto path = folder.write("t.csv", "a,same,y\n1000001,5,0\n1000002,5,1\n1000006,5,0\n");
  const torch::Tensor inputs = all_samples(*table(path)).inputs;
  EXPECT_NEAR(inputs.select(1, 0).mean().item<double>(), 0, 1e-6);
  EXPECT_NEAR(inputs.select(1, 0).square().mean().item<double>(), 1, 1e-6);
  EXPECT_EQ(inputs.select(1, 1).abs().max().item<float>(), 0) << "a constant column";
}

TEST(Table, TheTaskFollowsTheTargetUnlessItIsGiven) {
  const TemporaryFolder folder;
  const auto with_targets = [&](int count, const std::string& unit) {
    std::string content = "x,y\n";
    for (int i = 0; i < count; ++i) content += "1," + std::to_string(i) + unit + "\n";
    return folder.write("t.csv", content);
  };
  const auto real = [](const Dataset& data) { return all_samples(data).targets.is_floating_point(); };
  EXPECT_FALSE(real(*table(with_targets(100, ""))));
  EXPECT_TRUE(real(*table(with_targets(101, ""))));
  EXPECT_FALSE(real(*table(with_targets(101, " cm"))));
  EXPECT_TRUE(real(*table(with_targets(3, ".5"))));
  EXPECT_FALSE(real(*table(with_targets(101, ""), {{"task", std::string("classification")}})));
  const auto regression = table(with_targets(3, ""), {{"task", std::string("regression")}});
  EXPECT_EQ(regression->info().classes, 1);
  EXPECT_TRUE(all_samples(*regression).targets.equal(torch::tensor({{0.F}, {1.F}, {2.F}})));
}

TEST(Table, ClassesOfNumbersAreInTheirOrderHoweverTheyAreWritten) {
  const TemporaryFolder folder;
  const auto data = table(folder.write("t.csv", "x,y\n0,10\n0,9\n0,9.0\n0,-1\n0,1e1\n"));
  EXPECT_TRUE(all_samples(*data).targets.equal(torch::tensor({2, 1, 1, 0, 2})));
}

TEST(Table, MissingNumbersAreAnErrorTheMeanOrZero) {
  const TemporaryFolder folder;
  const auto path = folder.write("t.csv", "a,y\n1,0\n,1\nNaN,0\n4,1\nnull,1\n NA ,1\n");
  const auto inputs = [&](const char* missing) {
    return all_samples(*table(path, with(kAsTheyAre, "missing", std::string(missing)))).inputs.flatten();
  };
  EXPECT_TRUE(inputs("mean").equal(torch::tensor({1.F, 2.5F, 2.5F, 4.F, 2.5F, 2.5F})));
  EXPECT_TRUE(inputs("zero").equal(torch::tensor({1.F, 0.F, 0.F, 4.F, 0.F, 0.F})));
  const Error error = test::expect_error(ExitCode::kBadData, [&] { inputs("fail"); });
  EXPECT_TRUE(test::holds(error.what(), "t.csv:3:1: a: is missing"));
}

TEST(Table, AMissingCategoryIsACategory) {
  const TemporaryFolder folder;
  const auto data = table(folder.write("t.csv", "a,y\nred,0\n,1\nNA,0\nblue,1\n"), kAsTheyAre);
  EXPECT_TRUE(all_samples(*data).inputs.equal(
      torch::tensor({{0.F, 0.F, 1.F}, {1.F, 0.F, 0.F}, {1.F, 0.F, 0.F}, {0.F, 1.F, 0.F}})));
}

TEST(Table, AnotherFileIsEncodedLikeTheTrainingFile) {
  const TemporaryFolder folder;
  const auto train = folder.write("train.csv", "a,colour,y\n1,red,no\n3,blue,yes\n5,red,maybe\n");
  const auto test = folder.write("test.csv", "y,colour,a\nyes,green,3\nmaybe,red,11\n");
  Texts warnings;
  log::set_sink([&](const log::Record& record) { warnings.emplace_back(record.text); }, log::Level::kWarning);
  const auto data = table(test, {{"like", train.string()}});
  log::set_sink([](const log::Record&) {}, log::Level::kError);
  EXPECT_EQ(data->info().classes, 3);
  const Batch batch = all_samples(*data);
  const float deviation = std::sqrt(8.F / 3);
  EXPECT_TRUE(batch.inputs.allclose(torch::tensor({{0.F, 0.F, 0.F}, {8 / deviation, 0.F, 1.F}}), 1e-6, 0));
  EXPECT_TRUE(batch.targets.equal(torch::tensor({2, 0})));
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_TRUE(test::holds(warnings[0], "test.csv:2:5: colour: \"green\""));
}

TEST(Table, WhatTheTrainingFileDoesNotHaveIsNamed) {
  const TemporaryFolder folder;
  const auto train = folder.write("train.csv", "a,y\n1,no\n3,yes\n");
  const auto refuse = [&](const std::string& content, ExitCode code, const std::string& message) {
    const auto path = folder.write("test.csv", content);
    const Error error = test::expect_error(code, [&] { table(path, {{"like", train.string()}}); });
    EXPECT_TRUE(test::holds(error.what(), message));
  };
  refuse("a,y\n1,no\n2,perhaps\n", ExitCode::kBadData, "test.csv:3:3: y: the class \"perhaps\"");
  refuse("a,y\nx,no\n", ExitCode::kBadData, "test.csv:2:1: a: \"x\" is no number");
  refuse("b,y\n1,no\n", ExitCode::kBadRecipe, "has no column \"a\"");
}

TEST(Table, SplitsShareNoRowAndBothHaveEveryClassOfASortedFile) {
  const TemporaryFolder folder;
  std::string content = "x,y\n";
  for (int i = 0; i < 1000; ++i) content += std::to_string(i) + "," + std::to_string(i / 250) + "\n";
  const auto path = folder.write("t.csv", content);
  Keys keys = {{"standardize", false}, {"validation_share", 0.2}};
  const Batch train = all_samples(*table(path, with(keys, "split", std::string("train"))));
  const Batch validation = all_samples(*table(path, with(keys, "split", std::string("validation"))));
  EXPECT_NEAR(static_cast<double>(validation.samples), 200, 40);
  for (const Batch* part : {&train, &validation}) {
    EXPECT_EQ(std::get<0>(at::_unique(part->targets)).numel(), 4);
  }
  const torch::Tensor rows = at::cat({train.inputs, validation.inputs}).flatten();
  EXPECT_TRUE(std::get<0>(rows.sort()).equal(torch::arange(1000, torch::kFloat32)));
}

TEST(Table, StatisticsComeFromTheTrainRows) {
  const TemporaryFolder folder;
  std::string content = "x,y\n";
  for (int i = 0; i < 200; ++i) content += std::to_string(i * i) + "," + std::to_string(i % 2) + "\n";
  const auto path = folder.write("t.csv", content);
  const auto inputs = [&](const char* split, bool standardize) {
    const Keys keys = {
        {"split", std::string(split)}, {"standardize", standardize}, {"validation_share", 0.3}};
    return all_samples(*table(path, keys)).inputs.to(torch::kFloat64);
  };
  const torch::Tensor train = inputs("train", false);
  const torch::Tensor deviation = (train - train.mean()).square().mean().sqrt();
  for (const char* split : {"train", "validation"}) {
    const torch::Tensor expected = (inputs(split, false) - train.mean()) / deviation;
    EXPECT_TRUE(inputs(split, true).allclose(expected, 1e-5, 1e-6)) << split;
  }
}

TEST(Table, SaysWhatItDecided) {
  const TemporaryFolder folder;
  const auto path = folder.write("t.csv", "a,colour,y\n1,red,1\n2,blue,2\n");
  Texts lines;
  log::set_sink([&](const log::Record& record) { lines.emplace_back(record.text); });
  table(path);
  log::set_sink([](const log::Record&) {}, log::Level::kError);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_TRUE(test::holds(lines[0], "2 rows · 2 columns, 1 of them categorical, as 3 numbers"));
  EXPECT_TRUE(test::holds(lines[0], "target y: classification, 2 classes"));
}

struct TableDamage {
  const char* name;
  std::string content;
  Keys keys;
  ExitCode code;
  std::string message;
};

class TableDamaged : public testing::TestWithParam<TableDamage> {};

TEST_P(TableDamaged, SaysWhereAndWhy) {
  const TemporaryFolder folder;
  const auto path = folder.write("t.csv", GetParam().content);
  const Error error = test::expect_error(GetParam().code, [&] { table(path, GetParam().keys); });
  EXPECT_TRUE(test::holds(error.what(), GetParam().message));
}

std::string many_words(int count) {
  std::string content = "a,y\n";
  for (int i = 0; i < count; ++i) content += "w" + std::to_string(i) + ",1\n";
  return content;
}

constexpr ExitCode kData = ExitCode::kBadData;
constexpr ExitCode kRecipe = ExitCode::kBadRecipe;

INSTANTIATE_TEST_SUITE_P(
    Each, TableDamaged,
    testing::Values(
        TableDamage{"Empty", "", {}, kData, "t.csv: has no rows"},
        TableDamage{"HeaderOnly", "a,y\n", {}, kData, "has no rows"},
        TableDamage{
            "ColumnTwice", "a,a,y\n1,2,3\n", {}, kData, "t.csv:1:3: a: the column \"a\" is there twice"},
        TableDamage{"FewFields", "a,y\n1,2\n3\n", {}, kData, "t.csv:3: has 1 fields; there are 2 columns"},
        TableDamage{"ManyFields", "a,y\n1,2,\n", {}, kData, "t.csv:2: has 3 fields"},
        TableDamage{"OpenQuote", "a,y\n1,\"2\n", {}, kData, "t.csv:2:3: the quote"},
        TableDamage{
            "NoTarget", "a,y\n1,2\n", {{"target", std::string("outcome")}}, kRecipe, "its columns are a, y"},
        TableDamage{"NearTarget",
                    "a,price\n1,2\n",
                    {{"target", std::string("prise")}},
                    kRecipe,
                    "did you mean \"price\""},
        TableDamage{
            "NumberBeyond", "a,y\n1,2\n", {{"target", std::string("3")}}, kRecipe, "has no column \"3\""},
        TableDamage{
            "NoTargetGiven", "a,y\n1,2\n", {{"target", Value()}}, kRecipe, "table: target: is missing"},
        TableDamage{"NoFeature", "a,y\n1,2\n", {{"features", Texts{"b"}}}, kRecipe, "table: features: "},
        TableDamage{
            "TargetAsFeature", "a,y\n1,2\n", {{"features", Texts{"a", "y"}}}, kRecipe, "names the target"},
        TableDamage{
            "FeatureTwice", "a,y\n1,2\n", {{"features", Texts{"a", "1"}}}, kRecipe, "names a column twice"},
        TableDamage{"TargetCategorical",
                    "a,y\n1,2\n",
                    {{"categorical", Texts{"y"}}},
                    kRecipe,
                    "not one of the features"},
        TableDamage{"OnlyTarget", "y\n1\n", {}, kData, "no column beside the target"},
        TableDamage{"TargetMissing", "a,y\n1,2\n1,nan\n", {}, kData, "t.csv:3:3: y: the target is missing"},
        TableDamage{"WordToRegress",
                    "a,y\n1,2\n1,x\n",
                    {{"task", std::string("regression")}},
                    kData,
                    "t.csv:3:3: y: \"x\""},
        TableDamage{
            "ManyCategories", many_words(1001), {}, kData, "t.csv:2:1: a: \"w0\" is no number, which makes"},
        TableDamage{
            "ManyChosenCategories", many_words(1001), {{"categorical", Texts{"a"}}}, kData, "more than 1000"},
        TableDamage{"NoValidationRows",
                    "a,y\n1,1\n",
                    {{"split", std::string("validation")}, {"validation_share", 0.0}},
                    kData,
                    "no rows for this split"}),
    [](const auto& instance) { return std::string(instance.param.name); });

TEST(Table, NumbersThatFloatsDoNotHoldAreNone) {
  const TemporaryFolder folder;
  const auto train = folder.write("train.csv", "a,y\n1,1\n2,2\n");
  for (const std::string number : {"1e39", "inf", "-Infinity", "0x10", "1_000"}) {
    const auto path = folder.write("t.csv", "a,y\n" + number + ",1\n");
    const Error error = test::expect_error(kData, [&] { table(path, {{"like", train.string()}}); });
    EXPECT_TRUE(test::holds(error.what(), "t.csv:2:1: a: \"" + number + "\" is no number"));
  }
}

TEST(Table, AFarValueOverATinyDeviationIsAnErrorAndNoInfinity) {
  const TemporaryFolder folder;
  const auto train = folder.write("train.csv", "a,y\n0,1\n1e-40,2\n");
  const auto path = folder.write("t.csv", "a,y\n1e38,1\n");
  const Error error = test::expect_error(kData, [&] { table(path, {{"like", train.string()}}); });
  EXPECT_TRUE(test::holds(error.what(), "too far from the column's mean"));
}

TEST(Table, MissingFilesAreNamed) {
  const TemporaryFolder folder;
  test::expect_error(ExitCode::kMissingFile, [&] { table(folder / "none.csv"); });
  test::expect_error(kRecipe, [] { make_dataset({Choice{"table", {{"target", std::string("y")}}}}); });
}

}  // namespace
}  // namespace autotrain
