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
      "t.csv", "\"a \"\"quoted\"\" name, too long to be kept inside a string object\",y,b\n3,0,1\n3,1,1\n");
  const Keys keys = {{"features", Texts{name}}, {"standardize", false}};
  EXPECT_TRUE(all_samples(*table(path, keys)).inputs.equal(torch::tensor({{3.F}, {3.F}})));
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

TEST(Table, ClassesOfNumbersAreInTheirOrderAndCodesStayApart) {
  const TemporaryFolder folder;
  const auto data = table(folder.write("t.csv", "x,y\n0,10\n0,9\n0,09\n0,-1\n0,\"1e1\"\n"));
  EXPECT_TRUE(all_samples(*data).targets.equal(torch::tensor({3, 2, 1, 0, 4})));
}

TEST(Table, WholeNumbersWithDecimalCommasAreTheSameClassesToo) {
  const TemporaryFolder folder;
  const auto train = folder.write("train.csv", "x;k;y\n1,5;1;3\n2,5;2;7\n3,5;1;7\n");
  const Keys keys = {{"like", train.string()}, {"categorical", Texts{"k"}}, {"standardize", false}};
  const auto expect = [&](const std::string& content) {
    const Batch batch = all_samples(*table(folder.write("t.csv", content), keys));
    EXPECT_TRUE(batch.targets.equal(torch::tensor({1, 0}))) << content;
    EXPECT_TRUE(batch.inputs.equal(torch::tensor({{1.5F, 0.F, 1.F}, {2.5F, 1.F, 0.F}}))) << content;
  };
  expect("x;k;y\n1,5;2,0;7,0\n2,5;1,0;3,0\n");
  expect("x,k,y\n1.5,2.0,7.0\n2.5,1.0,3.0\n");
}

TEST(Table, TruthIsTheSameHoweverProgramsWriteIt) {
  const TemporaryFolder folder;
  const auto train = folder.write("train.csv", "x,f,y\n1,True,False\n2,False,True\n3,True,True\n");
  const Keys keys = {{"like", train.string()}, {"standardize", false}};
  const auto path = folder.write("t.csv", "x,f,y\n1,TRUE,false\n2,false,TRUE\n");
  const Batch batch = all_samples(*table(path, keys));
  EXPECT_TRUE(batch.inputs.equal(torch::tensor({{1.F, 0.F, 1.F}, {2.F, 1.F, 0.F}})));
  EXPECT_TRUE(batch.targets.equal(torch::tensor({0, 1})));
  // Where both are there, each is itself, and a third is neither.
  const auto both = folder.write("both.csv", "x,y\n1,True\n2,true\n3,False\n");
  test::expect_error(ExitCode::kBadData, [&] {
    table(folder.write("t.csv", "x,y\n1,TRUE\n"), {{"like", both.string()}});
  });
}

TEST(Table, WholeNumbersThatAnotherFileWritesWithAPointAreTheSameClasses) {
  const TemporaryFolder folder;
  const auto train = folder.write("train.csv", "x,y\n0,1\n0,2\n0,007\n");
  const auto like = [&](const std::string& content) {
    return all_samples(*table(folder.write("t.csv", content), {{"like", train.string()}})).targets;
  };
  EXPECT_TRUE(like("x,y\n0,2.0\n0,1.0\n").equal(torch::tensor({1, 0})));
  for (const char* other : {"x,y\n0,7\n", "x,y\n0,02\n", "x,y\n0,\"2.0\"\n", "x,y\n0,2e0\n"})
    test::expect_error(ExitCode::kBadData, [&] { like(other); });
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

TEST(Table, AMissingCategoryIsACategoryAndAWordForItIsAWord) {
  const TemporaryFolder folder;
  const auto data = table(folder.write("t.csv", "a,y\nNA,0\n,1\nred,0\n\"\",1\n"), kAsTheyAre);
  EXPECT_TRUE(all_samples(*data).inputs.equal(torch::tensor(
      {{0.F, 0.F, 1.F, 0.F}, {1.F, 0.F, 0.F, 0.F}, {0.F, 0.F, 0.F, 1.F}, {0.F, 1.F, 0.F, 0.F}})));
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
  for (int i = 0; i < count; ++i) content += "w" + std::to_string(i) + (i % 2 == 0 ? ",1\n" : ",2\n");
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
                    "a,y\n1,1\n1,2\n",
                    {{"split", std::string("validation")}, {"validation_share", 0.0}},
                    kData,
                    "no rows for this split"}),
    [](const auto& instance) { return std::string(instance.param.name); });

// A column of many numbers in which some fields are `field`.
std::string numbers_with(const std::string& field, int count, int rows = 100) {
  std::string content = "a,b,y\n";
  for (int i = 0; i < rows; ++i)
    content += (i < rows - count ? std::to_string(i) + ".5" : field) + ",1," + std::to_string(i % 2) + "\n";
  return content;
}

TEST(Table, AFieldThatIsNoNumberAmongNumbersIsNoCategory) {
  const TemporaryFolder folder;
  for (const std::string field : {"~1100", "12%", "\"1,234.5\"", "word", "$5", "inf", "1e39", "0x10"}) {
    const auto path = folder.write("t.csv", numbers_with(field, 3));
    const Error error = test::expect_error(kData, [&] { table(path); });
    EXPECT_TRUE(test::holds(error.what(), "t.csv:99:1: a: ")) << error.what();
    EXPECT_TRUE(test::holds(error.what(), "97 of the column's 100 fields are; 3 such fields, also at 100:1"));
    const Keys as_missing = {
        {"bad_cells", std::string("missing")}, {"missing", std::string("zero")}, {"standardize", false}};
    EXPECT_EQ(all_samples(*table(path, as_missing)).inputs[99][0].item<float>(), 0);
    EXPECT_EQ(table(path, {{"categorical", Texts{"a"}}})->info().input_shape[0], 97 + 1 + 1);
  }
}

TEST(Table, WordsForMissingAreKnownAndCanBeChosen) {
  const TemporaryFolder folder;
  for (const std::string field :
       {"?", "-", "N/A", "#N/A", "None", "NULL", "<NA>", "nan", "\\N", "\"NA\"", "\"\""}) {
    const auto path = folder.write("t.csv", numbers_with(field, 1));
    const Keys zero = {{"missing", std::string("zero")}, {"standardize", false}};
    EXPECT_EQ(all_samples(*table(path, zero)).inputs[99][0].item<float>(), 0) << field;
    if (field == "\"\"") continue;
    test::expect_error(kData, [&] { table(path, with(zero, "missing_words", Texts{})); });
  }
  const auto path = folder.write("t.csv", numbers_with("unknown", 1));
  table(path, {{"missing", std::string("mean")}, {"missing_words", Texts{"Unknown"}}});
}

TEST(Table, NumbersAndWordsThatCouldBeEitherAreRefused) {
  const TemporaryFolder folder;
  const auto path = folder.write("t.csv", numbers_with("word", 30));
  const Error error = test::expect_error(kData, [&] { table(path); });
  EXPECT_TRUE(test::holds(error.what(), "may be one of either"));
  table(path, {{"categorical", Texts{"a"}}});
  const Keys numeric = {
      {"numeric", Texts{"a"}}, {"bad_cells", std::string("missing")}, {"missing", std::string("mean")}};
  EXPECT_EQ(table(path, numeric)->info().input_shape[0], 2);
  // A few codes among which some are numbers are categories.
  EXPECT_EQ(table(folder.write("c.csv", "a,y\n1,0\n2,1\n3,0\ncrew,1\n"))->info().input_shape[0], 4);
}

std::unique_ptr<Dataset> table_for(TargetUse::Kind use, const std::filesystem::path& file, Keys keys = {},
                                   std::optional<int64_t> ignored = {}) {
  keys["file"] = file.string();
  keys["target"] = std::string("y");
  const Choice choice{"table", std::move(keys)};
  return make_dataset({.choice = choice, .targets = {.kind = use, .ignored = ignored}});
}

TEST(Table, TheLossDecidesTheTask) {
  const TemporaryFolder folder;
  using Kind = TargetUse::Kind;
  const auto whole = folder.write("w.csv", "x,y\n1,0\n2,1\n3,2\n4,1\n");
  EXPECT_TRUE(all_samples(*table_for(Kind::kNumbers, whole))
                  .targets.equal(torch::tensor({{0.F}, {1.F}, {2.F}, {1.F}})));
  EXPECT_EQ(table_for(Kind::kClasses, whole)->info().classes, 3);
  const Error task = test::expect_error(kRecipe, [&] {
    table_for(Kind::kClasses, whole, {{"task", std::string("regression")}});
  });
  EXPECT_TRUE(test::holds(task.what(), "table: task: is regression, and the loss is for classes"));
  const auto words = folder.write("words.csv", "x,y\n1,no\n2,yes\n3,no\n");
  test::expect_error(kData, [&] { table_for(Kind::kNumbers, words); });
  // Labels between 0 and 1 are no classes, however few there are.
  const auto soft = folder.write("soft.csv", "x,y\n1,0.05\n2,0.95\n3,0.05\n");
  EXPECT_TRUE(
      all_samples(*table_for(Kind::kLabels, soft)).targets.equal(torch::tensor({{0.05F}, {0.95F}, {0.05F}})));
  std::string many = "x,y\n";
  for (int i = 0; i < 300; ++i) many += "1,0." + std::to_string(100 + i) + "\n";
  EXPECT_EQ(table_for(Kind::kLabels, folder.write("many.csv", many))->info().classes, 1);
  const auto labels = table_for(Kind::kLabels, words);
  EXPECT_TRUE(all_samples(*labels).targets.equal(torch::tensor({{0.F}, {1.F}, {0.F}})));
  EXPECT_EQ(labels->info().classes, 1);
  test::expect_error(kRecipe, [&] { table_for(Kind::kLabels, whole); });

  std::string rents = "x,y\n";
  for (int i = 0; i < 300; ++i) rents += "1," + std::to_string(i) + ".25\n";
  const Error quantity =
      test::expect_error(kRecipe, [&] { table_for(Kind::kClasses, folder.write("r.csv", rents)); });
  EXPECT_TRUE(test::holds(quantity.what(), "300 different numbers, not whole ones"));
  const auto bad = folder.write("bad.csv", rents + "1,~1100\n");
  for (const Kind use : {Kind::kUnknown, Kind::kClasses, Kind::kNumbers}) {
    const Error error = test::expect_error(kData, [&] { table_for(use, bad); });
    EXPECT_TRUE(test::holds(error.what(), "bad.csv:302:3: y: \"~1100\""));
  }
}

TEST(Table, AnIgnoredTargetIsNoClass) {
  const TemporaryFolder folder;
  using Kind = TargetUse::Kind;
  const auto path = folder.write("t.csv", "x,y\n1,-1\n2,3\n3,5\n");
  const auto data = table_for(Kind::kClasses, path, {}, -1);
  EXPECT_EQ(data->info().classes, 2);
  EXPECT_TRUE(all_samples(*data).targets.equal(torch::tensor({-1, 0, 1})));
  const Error error = test::expect_error(kRecipe, [&] { table_for(Kind::kClasses, path, {}, 1); });
  EXPECT_TRUE(test::holds(error.what(), "1 is the number of the class \"3\""));
  const auto commas = folder.write("commas.csv", "x;y\n1,5;-1,0\n2,5;3,0\n3,5;5,0\n");
  const auto same = table_for(Kind::kClasses, commas, {}, -1);
  EXPECT_EQ(same->info().classes, 2);
  EXPECT_TRUE(all_samples(*same).targets.equal(torch::tensor({-1, 0, 1})));
}

TEST(Table, AMissingTargetIsCountedAndInQuotesIsAClass) {
  const TemporaryFolder folder;
  const auto plain = folder.write("t.csv", "x,y\n1,EU\n2,NA\n3,AS\n4,NA\n");
  const Error error = test::expect_error(kData, [&] { table(plain); });
  EXPECT_TRUE(test::holds(error.what(), "t.csv:3:3: y: the target is missing (\"NA\") in 2 of 4 rows"));
  EXPECT_TRUE(test::holds(error.what(), "missing_words: []"));
  EXPECT_EQ(table(plain, {{"missing_words", Texts{}}})->info().classes, 3);
  const auto quoted = folder.write("q.csv", "x,y\n1,\"EU\"\n2,\"NA\"\n3,\"AS\"\n");
  EXPECT_EQ(table(quoted)->info().classes, 3);
}

TEST(Table, OneClassIsRefused) {
  const TemporaryFolder folder;
  const Error error = test::expect_error(kData, [&] { table(folder.write("t.csv", "x,y\n1,a\n2,a\n")); });
  EXPECT_TRUE(test::holds(error.what(), "one class only, \"a\""));
}

// Other data beside training data.
struct Beside {
  Choice training, other;

  Beside(const std::filesystem::path& train, const std::filesystem::path& file, Keys train_keys = {},
         Keys keys = {})
      : training(choice(train, std::move(train_keys))), other(choice(file, std::move(keys))) {
    training.parameters.try_emplace("target", std::string("y"));
  }

  static Choice choice(const std::filesystem::path& file, Keys keys) {
    keys["file"] = file.string();
    return {"table", std::move(keys)};
  }

  std::unique_ptr<Dataset> make() const { return make_dataset({.choice = other, .training = &training}); }
};

TEST(Table, OtherDataAreReadAsTheTrainingDataAre) {
  const TemporaryFolder folder;
  const auto train = folder.write("train.csv", "a,z,y\n1,0,a\n3,0,b\n5,?,c\n");
  const auto other = folder.write("t.csv", "z,a,y\n,3,c\n0,11,b\n");
  const auto data = Beside(train, other, {{"missing", std::string("zero")}}).make();
  const Batch batch = all_samples(*data);
  const float deviation = std::sqrt(8.F / 3);
  EXPECT_TRUE(batch.inputs.allclose(torch::tensor({{0.F, 0.F}, {8 / deviation, 0.F}}), 1e-6, 0));
  EXPECT_TRUE(batch.targets.equal(torch::tensor({2, 1})));
  EXPECT_EQ(data->info().classes, 3);
}

TEST(Table, DataThatAskForOtherColumnsThanTheTrainingDataAreRefused) {
  const TemporaryFolder folder;
  const auto train = folder.write("train.csv", "a,b,y,w\n1,2,0,1\n3,2,1,0\n");
  const auto expect_refusal = [&](Keys train_keys, Keys keys, const std::string& key) {
    const Beside data(train, train, std::move(train_keys), std::move(keys));
    const Error error = test::expect_error(kRecipe, [&] { data.make(); });
    EXPECT_TRUE(test::holds(error.what(), "table: " + key + ": is "));
  };
  expect_refusal({}, {{"target", std::string("w")}}, "target");
  expect_refusal({}, {{"task", std::string("regression")}}, "task");
  expect_refusal({}, {{"features", Texts{"a"}}}, "features");
  expect_refusal({{"features", Texts{"a"}}}, {{"features", Texts{"b"}}}, "features");
  expect_refusal({}, {{"categorical", Texts{"a"}}}, "categorical");
  expect_refusal({}, {{"standardize", false}}, "standardize");
  expect_refusal({}, {{"like", (folder.write("o.csv", "a,b,y,w\n1,2,0,1\n")).string()}}, "like");
  expect_refusal({{"split", std::string("train")}},
                 {{"split", std::string("validation")}, {"validation_share", 0.3}}, "validation_share");
  Beside(train, train, {}, {{"target", std::string("3")}, {"features", Texts{"w", "2", "a"}}}).make();
}

// A name that is a number is no place in another file.
TEST(Table, ColumnsOfOtherFilesAreKnownByTheirNamesAlone) {
  const TemporaryFolder folder;
  const auto refusal = [&](const std::string& train, const std::string& other, Keys keys = {}) {
    const Beside data(folder.write("train.csv", train), folder.write("t.csv", other), std::move(keys));
    ExitCode code{};
    try {
      data.make();
    } catch (const Error& error) {
      code = error.code();
      EXPECT_TRUE(code == kRecipe || code == ExitCode::kBadData);
      return std::string(error.what());
    }
    return std::string("none");
  };
  // An index without a name in the one and not in the other; columns that are numbers.
  EXPECT_TRUE(test::holds(refusal(",x,z,y\n0,1.5,2,0\n1,2.5,3,1\n", "x,z,y\n1.5,2,0\n"), "no column \"1\""));
  EXPECT_TRUE(test::holds(refusal("0,1,2,y\n1,5,2,0\n2,7,3,1\n", "0,2,y\n1,2,0\n"), "no column \"1\""));
  EXPECT_EQ(refusal(",x,y\n0,1.5,0\n1,2.5,1\n", ",x,y\n5,1.5,0\n"), "none");
  const Keys headless = {{"header", false}, {"target", std::string("1")}, {"features", Texts{"2"}}};
  EXPECT_TRUE(test::holds(refusal("0,5,2\n1,7,3\n", "0,2\n1,3\n", headless), "known by their places"));
}

TEST(Table, AColumnWithoutANameLeavesNumbersToThoseThatHaveThem) {
  const TemporaryFolder folder;
  const auto data = table(folder.write("t.csv", ",0,1,y\n0,1.5,2,0\n1,2.5,3,1\n"), kAsTheyAre);
  EXPECT_TRUE(all_samples(*data).inputs.equal(torch::tensor({{0.F, 1.5F, 2.F}, {1.F, 2.5F, 3.F}})));
}

TEST(Table, ASeparatorAtTheEndOfEachLineIsNoFeature) {
  const TemporaryFolder folder;
  const auto data = table(folder.write("t.csv", "a;y;\n1;0;\n2;1;\n"), kAsTheyAre);
  EXPECT_TRUE(all_samples(*data).inputs.equal(torch::tensor({{1.F}, {2.F}})));
}

TEST(Table, PointsThatMayStandBetweenThousandsAreRefusedUntilTheyAreSaidToBeDecimals) {
  const TemporaryFolder folder;
  const auto path = folder.write("t.csv", "a;y\n1.234;0\n950;1\n");
  const Error error = test::expect_error(ExitCode::kBadData, [&] { table(path); });
  EXPECT_TRUE(test::holds(error.what(), "t.csv:2:1: 1.234 may have a point"));
  EXPECT_TRUE(all_samples(*table(path, with(kAsTheyAre, "decimal", std::string("point"))))
                  .inputs.equal(torch::tensor({{1.234F}, {950.F}})));
  table(folder.write("t.csv", "a;y\n1.234;0\n950;1\n1234;0\n"));  // thousands without a point
  table(folder.write("t.csv", "a;y\n1.234;0\n950;1\n0.5;0\n"));   // decimals
}

TEST(Table, OtherFilesAreWrittenAsTheTrainingFileIsWhereTheyDoNotSay) {
  const TemporaryFolder folder;
  const auto train = folder.write("train.csv", "a;y\n1,5;0\n2,25;1\n");
  const Keys keys = {{"standardize", false}};
  const auto data = Beside(train, folder.write("t.csv", "a;y\n1,234;0\n"), keys).make();
  EXPECT_TRUE(all_samples(*data).inputs.equal(torch::tensor({{1.234F}})));
}

TEST(Table, BlanksBeforeQuotesArePassedOver) {
  const TemporaryFolder folder;
  const auto data = table(
      folder.write("t.csv", "a, \"b\", \"y\"\n1, \"2.5\", \"no, not\"\n3, \"4.5\", \"yes\"\n"), kAsTheyAre);
  EXPECT_TRUE(all_samples(*data).inputs.equal(torch::tensor({{1.F, 2.5F}, {3.F, 4.5F}})));
}

TEST(Table, LabelsOfOtherDataLieBetweenNoughtAndOne) {
  const TemporaryFolder folder;
  const auto train = folder.write("train.csv", "a,y\n1,0.25\n2,0.5\n3,1\n");
  const auto other = folder.write("t.csv", "a,y\n1,25\n2,100\n");
  const Choice own{
      "table", {{"file", train.string()}, {"target", std::string("y")}, {"task", std::string("regression")}}};
  const Choice choice{"table", {{"file", other.string()}}};
  const Error error = test::expect_error(ExitCode::kBadData, [&] {
    make_dataset({.choice = choice, .targets = {.kind = TargetUse::Kind::kLabels}, .training = &own});
  });
  EXPECT_TRUE(test::holds(error.what(), "from 0 to 1"));
}

// What a sample is, is said once.
TEST(OtherData, HaveWhatTheyLeaveOutAsTheTrainingDataHaveIt) {
  DataRecipe data;
  data.train = {"image_folder",
                {{"size", std::vector<int64_t>{8, 8}},
                 {"mean", std::vector<double>{0.1, 0.2, 0.3}},
                 {"root", std::string("a")},
                 {"limit", int64_t{3}}}};
  data.validation = Choice{"image_folder", {{"size", std::vector<int64_t>{9, 9}}}};
  data.test = Choice{"npy", {}};
  complete_other_data(data);
  const std::map<std::string, Value> expected = {{"size", std::vector<int64_t>{9, 9}},
                                                 {"mean", std::vector<double>{0.1, 0.2, 0.3}}};
  EXPECT_EQ(data.validation->parameters, expected);
  EXPECT_TRUE(data.test->parameters.empty());
}

TEST(Table, FilesOfSpreadsheetsWithDecimalCommas) {
  const TemporaryFolder folder;
  const auto expect = [&](const std::string& content) {
    const Batch batch = all_samples(*table(folder.write("t.csv", content), kAsTheyAre));
    EXPECT_TRUE(batch.inputs.equal(torch::tensor({{1.5F, 1.F}, {2.25F, 3.F}}))) << content;
    EXPECT_TRUE(batch.targets.equal(torch::tensor({{10.5F}, {1234.125F}}))) << content;
  };
  expect("a;b;y\n1,5;1;10,5\n2,25;3;1234,125\n");
  expect("sep=;\r\na;b;y\r\n1,5;1;10,5\r\n2,25;3;1234,125\r\n");
  expect(
      "\xef\xbb\xbf"
      "a\tb\ty\n1,5\t1\t10,5\n2,25\t3\t1234,125\n");
  expect("a,b,y\n\"1,5\",1,\"10,5\"\n\"2,25\",3,\"1234,125\"\n");
  expect("a|b|y\n1.5|1|10.5\n2.25|3|1234.125\n");
}

TEST(Table, CommasBeforeDecimalsOrThousandsAreNotGuessed) {
  const TemporaryFolder folder;
  const auto path = folder.write("t.csv", "a;y\n1,234;0\n2,500;1\n");
  const Error error = test::expect_error(kData, [&] { table(path); });
  EXPECT_TRUE(test::holds(error.what(), "does not tell whether it stands before decimals or thousands"));
  const Keys comma = with(kAsTheyAre, "decimal", std::string("comma"));
  EXPECT_TRUE(all_samples(*table(path, comma)).inputs.equal(torch::tensor({{1.234F}, {2.5F}})));
  // Another number of the file tells.
  const auto told = folder.write("t.csv", "a;b;y\n1,234;0,5;0\n2,500;0,7;1\n");
  EXPECT_TRUE(
      all_samples(*table(told, kAsTheyAre)).inputs.equal(torch::tensor({{1.234F, 0.5F}, {2.5F, 0.7F}})));
}

DataLook look_of(const std::filesystem::path& file, Keys keys = {}, LookDepth depth = LookDepth::kStart) {
  keys["file"] = file.string();
  keys.try_emplace("target", std::string("y"));
  const Choice choice{"table", std::move(keys)};
  const DatasetPlace place{.choice = choice};
  const LookOptions options{.depth = depth};
  return look_at(place, *make_dataset(place), nullptr, options);
}

// What is doubted of a table, as "kind: first place".
Texts doubts_of(const DataLook& look) {
  Texts texts;
  for (const Doubt& doubt : look.doubts) texts.push_back(doubt.kind + ": " + doubt.places.at(0));
  return texts;
}

// Twenty rows of a feature of noise beside `extra`, whose fields are made of the row's number.
std::string rows_with(const std::string& header, const std::function<std::string(int row)>& fields) {
  std::string content = header + ",x,y\n";
  for (int i = 0; i < 30; ++i) {
    content += fields(i) + "," + std::to_string(i * 7 % 11) + ".25," + std::to_string(i * i % 7 % 2) + "\n";
  }
  return content;
}

// A look at such rows has this doubt and no other; "": it has none.
void expect_doubt(const std::string& header, const std::function<std::string(int)>& fields,
                  const std::string& doubt, LookDepth depth = LookDepth::kStart) {
  const TemporaryFolder folder;
  const Texts doubts = doubts_of(look_of(folder.write("t.csv", rows_with(header, fields)), {}, depth));
  ASSERT_EQ(doubts.size(), doubt.empty() ? 0U : 1U) << testing::PrintToString(doubts);
  if (!doubts.empty()) {
    EXPECT_TRUE(test::holds(doubts[0], doubt));
  }
}

TEST(Table, DoubtsFeaturesThatAreNone) {
  const auto number = [](int i) { return std::to_string(i); };
  expect_doubt(
      "a", [](int i) { return std::to_string(i * 5 % 13); }, "");
  expect_doubt("a", number, "look like row numbers: ");
  expect_doubt(
      "a", [](int i) { return std::to_string(1000 + 3 * i); }, "look like row numbers: ");
  expect_doubt("", number, "columns without a name, which look like row numbers");
  expect_doubt(
      "", [](int i) { return std::to_string(i * 5 % 13); }, "columns without a name: ");
  expect_doubt(
      "a", [](int) { return std::string("7"); }, "of which all fields are the same");
  expect_doubt(
      "a", [](int i) { return "n" + std::to_string(10 + i); }, "there once or twice");
  for (const char* const year_first : {"2024-01-", "2024/1/", "1.3."}) {
    expect_doubt(
        "a", [&](int i) { return year_first + std::to_string(10 + i % 5); },
        "columns of dates, taken as categories: ");
  }
  expect_doubt(
      "a", [](int i) { return "1.3-" + std::to_string(10 + i % 5); }, "");
  expect_doubt(
      "a", [](int i) { return std::to_string(20240110 + i * 5 % 13); },
      "columns of dates, taken as numbers: ");
  expect_doubt(
      "a", [](int i) { return std::to_string(20249910 + i * 5 % 13); }, "");
  expect_doubt(
      "a", [](int i) { return i % 9 == 3 ? std::string("-999") : std::to_string(i * 5 % 13); },
      "may stand for what is missing: ");
  expect_doubt(
      "a", [](int i) { return i % 9 == 3 ? std::string("99") : std::to_string(60 + i * 5 % 35); }, "");
}

TEST(Table, DoubtsFeaturesThatNameTheRowsOrAreWrittenInSeveralWays) {
  expect_doubt(
      "user_id", [](int i) { return std::to_string(1000 + i * 7 % 31); }, "features that name the rows");
  expect_doubt(
      "a", [](int i) { return std::to_string(1000 + i * 7 % 31); }, "");
  expect_doubt(
      "a", [](int i) { return std::to_string(i * 7 % 31) + " kg"; },
      "numbers with units, taken as categories: ");
  expect_doubt(
      "a", [](int i) { return "0" + std::to_string(i * 5 % 13); }, "leading zeros");
  expect_doubt(
      "a", [](int i) { return std::string(i % 3 == 0   ? "Red"
                                          : i % 3 == 1 ? "red"
                                                       : "blue"); },
      "differ only in how they are written: ");
  expect_doubt(
      "a", [](int i) { return std::string(i % 3 == 0   ? "caf\u00e9"
                                          : i % 3 == 1 ? "cafe\u0301"
                                                       : "bar"); },
      "differ only in how they are written: ");
  for (const char* const unseen : {"red\u200b", "red\u00a0", "r\u00aded"}) {
    expect_doubt(
        "a", [&](int i) { return std::string(i % 3 == 0   ? unseen
                                             : i % 3 == 1 ? "red"
                                                          : "blue"); },
        "differ only in how they are written: ");
  }
  expect_doubt(
      "a", [](int i) { return std::string(i * i % 7 % 2 == 0 ? "left" : "right"); }, "give the target away",
      LookDepth::kWhole);
}

// Numbers of other units, a column that nothing is in, and the training file itself.
TEST(Table, DoubtsOtherDataThatAreUnlikeTheTrainingDataOrAreThem) {
  const TemporaryFolder folder;
  const auto rows = [](double scale, double offset) {
    std::string content = "a,y\n";
    for (int i = 0; i < 30; ++i)
      content += std::to_string(i * 7 % 11 * scale + offset) + "," + std::to_string(i % 2) + "\n";
    return content;
  };
  const auto train = folder.write("train.csv", rows(1, 0));
  const auto doubts = [&](const std::string& content) {
    const Beside data(train, folder.write("t.csv", content), {{"missing", std::string("mean")}});
    const auto training = make_dataset({.choice = data.training}), samples = data.make();
    const DatasetPlace place{.choice = data.other, .training = &data.training};
    return testing::PrintToString(doubts_of(look_at(place, *samples, training.get(), {})));
  };
  EXPECT_EQ(doubts(rows(1, 1)), "{}");
  EXPECT_TRUE(test::holds(doubts(rows(100, 1000)), "far from the training data's"));
  EXPECT_TRUE(test::holds(doubts(rows(0.001, 0)), "far from the training data's"));
  EXPECT_TRUE(test::holds(doubts(rows(1, 0)), "that are the training data"));
  std::string nothing = "a,y\n";
  for (int i = 0; i < 30; ++i) nothing += "," + std::to_string(i % 2) + "\n";
  EXPECT_TRUE(test::holds(doubts(nothing), "missing from every row"));
}

// A year of which the training data have one: its weights were never learned.
TEST(Table, DoubtsOtherNumbersThanTheOneOfTheTrainingData) {
  const TemporaryFolder folder;
  const auto train = folder.write("train.csv", "a,year,y\n1,2023,0\n2,2023,1\n3,2023,1\n");
  const auto doubts = [&](const std::string& year) {
    const Beside data(train, folder.write("t.csv", "a,year,y\n1," + year + ",0\n"));
    const auto training = make_dataset({.choice = data.training}), samples = data.make();
    const DatasetPlace place{.choice = data.other, .training = &data.training};
    return testing::PrintToString(doubts_of(look_at(place, *samples, training.get(), {})));
  };
  EXPECT_EQ(doubts("2023"), "{}");
  EXPECT_TRUE(test::holds(doubts("2024"), "mean 2024, the training data's 2023 in each row"));
}

// As where --set names another file beside the split of the run's recipe.
TEST(Table, DoubtsAPartOfAnotherFile) {
  const TemporaryFolder folder;
  std::string content = "a,y\n";
  for (int i = 0; i < 30; ++i) content += std::to_string(i * 7 % 11) + "," + std::to_string(i % 2) + "\n";
  const auto train = folder.write("train.csv", content);
  const auto doubts = [&](const std::filesystem::path& file, const std::string& split) {
    const Beside data(train, file, {{"split", std::string("train")}}, {{"split", split}});
    const auto training = make_dataset({.choice = data.training}), samples = data.make();
    const DatasetPlace place{.choice = data.other, .training = &data.training};
    return testing::PrintToString(doubts_of(look_at(place, *samples, training.get(), {})));
  };
  const auto other = folder.write("t.csv", content + "3,1\n");
  EXPECT_TRUE(test::holds(doubts(other, "validation"), "a part of another file than the training data's"));
  EXPECT_EQ(doubts(other, "all"), "{}");
  EXPECT_EQ(doubts(train, "validation"), "{}");
}

TEST(Table, NumbersMayBeWordsForMissing) {
  const TemporaryFolder folder;
  const auto file = folder.write("t.csv", "x,y\n1,0.5\n-999,0.5\n3,0.5\n");
  const Keys keys = {{"missing_words", Texts{"-999"}},
                     {"missing", std::string("mean")},
                     {"standardize", false},
                     {"task", std::string("regression")}};
  EXPECT_TRUE(all_samples(*table(file, keys)).inputs.equal(torch::tensor({{1.0F}, {2.0F}, {3.0F}})));
}

// Those of the training file are missing as well.
TEST(Table, NumbersThatStandForMissingAreNoTargetsAndNoWeights) {
  const TemporaryFolder folder;
  const auto train = folder.write("train.csv", "x,y\n1,0.5\n2,1.5\n3,2.5\n");
  const auto other = folder.write("t.csv", "x,y\n1,0.5\n2,-999\n");
  const Keys keys = {{"missing_words", Texts{"-999"}}};
  const Error target = test::expect_error(kData, [&] { Beside(train, other, keys).make(); });
  EXPECT_TRUE(test::holds(target.what(), "t.csv:3:3: y: the target is missing"));
  const auto weights = folder.write("w.csv", "x,w,y\n1,1,0\n2,9999,1\n");
  const Keys weighted = {{"missing_words", Texts{"9999"}}, {"weight_column", std::string("w")}};
  const Error weight = test::expect_error(kData, [&] { table(weights, weighted); });
  EXPECT_TRUE(test::holds(weight.what(), "w.csv:3:3: w: \"9999\" is no weight"));
}

// A quote at the beginning of a text, as files have it that were written without quoting.
TEST(Table, AQuotedFieldThatHoldsRowsIsRefused) {
  const TemporaryFolder folder;
  const auto rows = [](const std::string& first, const std::string& last) {
    return "x\tt\ty\n1.5\t" + first + "\t0\n2.5\ttwo\t1\n3.5\t" + last + "\t1\n4.5\tfour\t0\n";
  };
  const Keys keys = {{"features", Texts{"x"}}};
  const Error error =
      test::expect_error(kData, [&] { table(folder.write("t.tsv", rows("\"one", "three\"")), keys); });
  EXPECT_TRUE(test::holds(error.what(), "t.tsv:2:5: t: is a quoted field of 3 lines that look like rows"));
  EXPECT_EQ(table(folder.write("t.tsv", rows("\"one\"", "three\"")), keys)->size(), 4);
  // Texts of several lines, with separators and numbers in them.
  const auto texts = folder.write(
      "t.csv", "x,t,y\n1,\"Dear Sir, hello\nRegards, Bob\",0\n2,\"a, b, c\n7, 8\n9\",1\n3,\"6\n7\",1\n");
  EXPECT_EQ(table(texts, keys)->size(), 3);
  const auto lists = folder.write("l.csv", "t,y\n\"Flour, 500\nSugar, 200\nEggs\",1\nb,0\n\"c\",1\nd,0\n");
  EXPECT_EQ(table(lists, {})->size(), 4);
}

TEST(Table, NamesOfColumnsAgainAreNoRow) {
  const TemporaryFolder folder;
  const std::string file = "c,y\nu,a\nv,b\n";
  const Error error = test::expect_error(kData, [&] { table(folder.write("t.csv", file + file)); });
  EXPECT_TRUE(test::holds(error.what(), "t.csv:4: has the names of the columns again"));
  EXPECT_EQ(table(folder.write("t.csv", "1,2\n1,2\n3,4\n"), {{"target", std::string("2")}})->size(), 2);
}

// As spreadsheets write UTF-8, so that the mark stands within files that are joined.
TEST(Table, NamesOfColumnsAgainBehindAByteOrderMarkAreNoRow) {
  const TemporaryFolder folder;
  for (const char* const names : {"\xef\xbb\xbf"
                                  "c,y\n",
                                  "\xef\xbb\xbf"
                                  "\"c\",\"y\"\n"}) {
    const std::string file = std::string(names) + "u,a\nv,b\n";
    const Error error = test::expect_error(kData, [&] { table(folder.write("t.csv", file + file)); });
    EXPECT_TRUE(test::holds(error.what(), "t.csv:4: has the names of the columns again"));
  }
}

TEST(Table, ErrorsOfASpreadsheetAreNoClassesAndAreDoubtedAsCategories) {
  const TemporaryFolder folder;
  for (const std::string error : {"#REF!", "#DIV/0!", "#NAME?", "####", "Err:502"}) {
    const auto target = folder.write("t.csv", "x,y\n1,a\n2,b\n3," + error + "\n4,a\n5,b\n6," + error + "\n");
    const Error refused = test::expect_error(kData, [&] { table(target); });
    EXPECT_TRUE(
        test::holds(refused.what(), "t.csv:4:3: y: the target \"" + error + "\" is what a spreadsheet"));
    EXPECT_TRUE(test::holds(refused.what(), "2 such fields"));
    expect_doubt(
        "a", [&](int i) { return i % 3 == 0   ? error
                                 : i % 3 == 1 ? "left"
                                              : "right"; },
        "errors of a spreadsheet, taken as categories: ");
  }
  expect_doubt(
      "a", [](int i) { return i % 3 == 0   ? "#wow!"
                              : i % 3 == 1 ? "#1"
                                           : "a"; }, "");
}

// The last row of many sheets.
TEST(Table, DoubtsARowOfTotals) {
  const auto fields = [](int total) {
    return [total](int i) {
      static int sum = 0;
      sum = i == 0 ? 0 : sum;
      const int number = i == 29 ? total + sum : 5 + i * 7 % 13;
      sum += number;
      return std::to_string(number);
    };
  };
  expect_doubt("a", fields(0), "columns whose last number is the sum of all others: ");
  expect_doubt("a", fields(1), "");
}

TEST(Table, DoubtsNumbersDatesAndTimesThatAreWrittenAsWords) {
  const auto doubts = [](const std::string& before, const std::string& behind, const std::string& doubt) {
    expect_doubt(
        "a", [&](int i) { return before + std::to_string(1 + i % 7) + behind; }, doubt);
  };
  for (const auto& [before, behind] :
       {std::pair{"[", "]"}, {"", " km"}, {"", "\u00b0C"}, {"", "/10"}, {"EUR ", ".5"}})
    doubts(before, behind, "numbers with units, taken as categories: ");
  for (const auto& [before, behind] : {std::pair{"shop ", ""}, {"P00", ""}, {"#", ""}, {"v1.", ".2"}})
    doubts(before, behind, "");
  for (const auto& [before, behind] : {std::pair{"", " Mar 2024"}, {"\"March ", ", 2024\""}, {"Sep-0", ""}})
    doubts(before, behind, "columns of dates, taken as categories: ");
  for (const auto& [before, behind] : {std::pair{"", ":30"}, {"0", ":15:00"}, {"", ":45 PM"}})
    doubts(before, behind, "columns of times, taken as categories: ");
  expect_doubt(
      "a", [](int i) { return std::string(i % 2 == 0 ? "May" : "June"); }, "");
}

TEST(Table, DoubtsLettersThatWereLost) {
  expect_doubt(
      "a", [](int i) { return std::string(i % 2 == 0 ? "K\ufffdln" : "Bonn"); }, "letters were lost");
}

// A model's outputs begin near 0.
TEST(Table, DoubtsTargetsOfLargeNumbers) {
  const TemporaryFolder folder;
  const auto doubts = [&](int64_t first, int64_t step) {
    std::string content = "x,y\n";
    for (int i = 0; i < 30; ++i)
      content += std::to_string(i * 7 % 11) + ".5," + std::to_string(first + step * (i * 7 % 13)) + "\n";
    const Keys keys = {{"task", std::string("regression")}};
    return testing::PrintToString(doubts_of(look_of(folder.write("t.csv", content), keys)));
  };
  EXPECT_EQ(doubts(1000, 100), "{}");
  const std::string prices = doubts(100'000, 5000), times = doubts(1'700'000'000, 10);
  EXPECT_TRUE(test::holds(prices, "targets of large numbers"));
  EXPECT_FALSE(test::holds(prices, "in steps of"));
  EXPECT_TRUE(test::holds(times, "as float32 in steps of 2"));
}

TEST(Table, DoubtsTargetsOfOtherUnitsThanTheTrainingDatas) {
  const TemporaryFolder folder;
  const auto rows = [&](const std::string& name, double scale) {
    std::string content = "x,y\n";
    for (int i = 0; i < 30; ++i)
      content += std::to_string(i * 7 % 11) + ".5," + std::to_string(scale * (30 + i * 7 % 13)) + "\n";
    return folder.write(name, content);
  };
  const auto train = rows("train.csv", 1);
  const auto doubts = [&](double scale) {
    const Beside data(train, rows("t.csv", scale), {{"task", std::string("regression")}});
    const auto training = make_dataset({.choice = data.training}), samples = data.make();
    const DatasetPlace place{.choice = data.other, .training = &data.training};
    return testing::PrintToString(doubts_of(look_at(place, *samples, training.get(), {})));
  };
  EXPECT_EQ(doubts(1.125), "{}");
  EXPECT_TRUE(test::holds(doubts(1000), "targets that are far from the training data's"));
  EXPECT_TRUE(test::holds(doubts(0.001), "targets that are far from the training data's"));
}

// Rows of one patient on both sides of a split.
TEST(Table, DoubtsRowsOfGroupsThatTheTrainingDataHaveToo) {
  const TemporaryFolder folder;
  const auto doubts = [&](const std::string& name, int rows_of_group, const std::string& split) {
    std::string content = name + ",x,y\n";
    for (int i = 0; i < 240; ++i)
      content += "g" + std::to_string(i / rows_of_group) + "," + std::to_string(i * 7 % 11) + ".5," +
                 std::to_string(i * i % 7 % 2) + "\n";
    const auto file = folder.write("t.csv", content);
    const Keys features = {{"features", Texts{"x"}}};
    const Beside data(file, file, with(features, "split", std::string("train")), {{"split", split}});
    const auto training = make_dataset({.choice = data.training}), samples = data.make();
    const DatasetPlace place{.choice = data.other, .training = &data.training};
    return testing::PrintToString(doubts_of(look_at(place, *samples, training.get(), {})));
  };
  EXPECT_TRUE(
      test::holds(doubts("patient_id", 6, "validation"), "rows of groups that the training data have"));
  EXPECT_EQ(doubts("name", 6, "validation"), "{}");
  EXPECT_EQ(doubts("patient_id", 1, "validation"), "{}") << "a row each";
  EXPECT_EQ(doubts("shop_id", 60, "validation"), "{}") << "a category";
}

TEST(Table, DoubtsClassesThatASplitLeavesTheTrainingDataWithout) {
  const TemporaryFolder folder;
  const Keys train = {{"split", std::string("train")}}, rest = {{"split", std::string("validation")}};
  std::string content = "x,y\n";
  for (int i = 0; i < 100; ++i) content += std::to_string(i) + (i % 2 == 0 ? ".5,a\n" : ".5,b\n");
  const auto file = folder.write("t.csv", content);
  const int64_t first =
      std::lround(all_samples(*table(file, with(with(rest, "standardize", false), "features", Texts{"x"})))
                      .inputs[0][0]
                      .item<float>() -
                  0.5F);
  std::string odd = "x,y\n";  // whose only row of a class falls to the validation data
  for (int i = 0; i < 100; ++i)
    odd += std::to_string(i) + (i == first ? ".5,c\n" : i % 2 == 0 ? ".5,a\n" : ".5,b\n");
  const auto other = folder.write("o.csv", odd);
  const auto doubts = [&](const std::filesystem::path& path) {
    const Beside data(path, path, train, rest);
    const auto training = make_dataset({.choice = data.training}), samples = data.make();
    const DatasetPlace place{.choice = data.other, .training = &data.training};
    return doubts_of(look_at(place, *samples, training.get(), {}));
  };
  EXPECT_TRUE(doubts(file).empty());
  const Texts found = doubts(other);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(test::holds(found[0], "classes of the validation data that the training data lack: "));
  EXPECT_TRUE(test::holds(found[0], "o.csv: \"c\""));
}

TEST(Table, AColumnThatTheTrainingRowsLackIsToldAsThat) {
  const TemporaryFolder folder;
  const auto train = folder.write("train.csv", "a,b,y\n1,,0\n2,,1\n3,,1\n");
  const Beside data(train, folder.write("t.csv", "a,b,y\n1,7,0\n2,8,1\n"),
                    {{"missing", std::string("mean")}});
  const auto training = make_dataset({.choice = data.training}), samples = data.make();
  const DatasetPlace place{.choice = data.other, .training = &data.training};
  const Texts doubts = doubts_of(look_at(place, *samples, training.get(), {}));
  ASSERT_EQ(doubts.size(), 1U) << testing::PrintToString(doubts);
  EXPECT_TRUE(test::holds(doubts[0], "missing from every row of the training data: "));
}

TEST(Table, TheWholeLookCountsTheRowsOfItsPartAndThoseThatContradictEachOther) {
  const TemporaryFolder folder;
  std::string content = "x,y\n";
  for (int i = 0; i < 40; ++i) content += std::to_string(i) + (i % 2 == 0 ? ",a\n" : ",b\n");
  const auto file = folder.write("t.csv", content + "7,a\n");
  const DataLook all = look_of(file, {}, LookDepth::kWhole);
  EXPECT_EQ(all.bars.at(0).counts, (std::vector<int64_t>{21, 20}));
  const std::pair<std::string, std::string> fact = {"rows of the same inputs with different targets", "2"};
  EXPECT_NE(std::ranges::find(all.facts, fact), all.facts.end());
  const Keys keys = {{"split", std::string("train")}};
  const DataLook part = look_of(file, keys, LookDepth::kWhole);
  EXPECT_EQ(part.bars.at(0).counts[0] + part.bars.at(0).counts[1], table(file, keys)->size());
  EXPECT_EQ(part.tables.at(0).title, "columns of the whole file");
}

TEST(Table, FilesThatAreSomethingElseAreNamed) {
  const TemporaryFolder folder;
  const auto refusal = [&](const std::string& content) {
    return std::string(
        test::expect_error(ExitCode::kBadData, [&] { table(folder.write("t.csv", content)); }).what());
  };
  const std::string zeros(100, '\0');
  EXPECT_TRUE(test::holds(refusal("\x1f\x8b" + zeros), "is a gzip file"));
  EXPECT_TRUE(test::holds(refusal("PK\x03\x04" + zeros), "is a zip archive, as spreadsheets are"));
  EXPECT_TRUE(test::holds(refusal("PAR1" + zeros), "is a Parquet file"));
  EXPECT_TRUE(test::holds(refusal("<!DOCTYPE html>\n<html>\n"), "is a page of HTML"));
  EXPECT_TRUE(test::holds(refusal("[{\"x\": 1, \"y\": 2}]\n"), "is JSON"));
  EXPECT_TRUE(test::holds(refusal("version https://git-lfs.github.com/spec/v1\noid sha256:1\n"), "Git LFS"));
  EXPECT_TRUE(test::holds(refusal(std::string("x,y\n1,2\n") + '\0' + ",3\n"), "t.csv:3: holds a zero byte"));
  EXPECT_TRUE(test::holds(refusal("# a comment\nx,y,z\n1,2,3\n4,5,6\n"), "t.csv:1: has 1 field"));
  EXPECT_TRUE(test::holds(refusal("x,y\n1,2,3\n4,5,6\n"), "some column has no name"));
  const Error blanks =
      test::expect_error(ExitCode::kBadRecipe, [&] { table(folder.write("t.csv", "x  y\n1  2\n3  4\n")); });
  EXPECT_TRUE(test::holds(blanks.what(), "has no column \"y\""));
  EXPECT_TRUE(test::holds(blanks.hint(), "blanks"));
  const Error title = test::expect_error(ExitCode::kBadRecipe,
                                         [&] { table(folder.write("t.csv", "Export,,\nx,z,y\n1,2,3\n")); });
  EXPECT_TRUE(test::holds(title.hint(), "titles"));
}

TEST(Table, TheWholeLookFindsRowsOfTheTrainingDataAndTellsColumns) {
  const TemporaryFolder folder;
  const auto train = folder.write("train.csv", "x,c,y\n1,red,a\n2,blue,b\n3,red,b\n");
  const auto other = folder.write("t.csv", "x,c,y\n9,green,a\n2,blue,b\n");
  const Beside data(train, other);
  const auto training = make_dataset({.choice = data.training}), samples = data.make();
  const DatasetPlace place{.choice = data.other, .training = &data.training};
  const LookOptions options{.depth = LookDepth::kWhole};
  const Texts doubts = doubts_of(look_at(place, *samples, training.get(), options));
  ASSERT_EQ(doubts.size(), 2U);
  EXPECT_TRUE(test::holds(doubts[0], "t.csv:2:3: c: \"green\""));
  EXPECT_TRUE(test::holds(doubts[1], "rows that are in the training data, too: row 2"));

  const DataLook look = look_of(train);
  ASSERT_EQ(look.tables.size(), 1U);
  ASSERT_EQ(look.tables[0].rows.size(), 3U);
  EXPECT_EQ(std::get<std::string>(look.tables[0].rows[0][4]), "1 to 3");
  EXPECT_EQ(std::get<std::string>(look.tables[0].rows[1][4]), "red (2), blue (1)");
  EXPECT_EQ(look.bars.at(0).counts, (std::vector<int64_t>{2, 1}));
}

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
