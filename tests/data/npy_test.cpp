#include "support/npy.h"

#include <cmath>
#include <limits>

#include "base/units.h"
#include "data/datasets.h"
#include "data/finite.h"
#include "device/cpu_meter.h"
#include "support/samples.h"
#include "support/support.h"

namespace autotrain {
namespace {

using test::all_samples;
using test::bytes_of_numbers;
using test::npy_dictionary;
using test::npy_file;
using test::samples;
using test::TemporaryFolder;

Choice npy(const std::filesystem::path& inputs, std::map<std::string, Value> more = {}) {
  more["inputs"] = inputs.string();
  return {"npy", std::move(more)};
}

template <class Number>
std::filesystem::path write(const TemporaryFolder& folder, const std::string& name, const std::string& descr,
                            const std::string& shape, const std::vector<Number>& numbers, char version = 1) {
  return folder.write(name, npy_file(npy_dictionary(descr, shape), bytes_of_numbers(numbers), version));
}

TEST(Npy, BytesOfThreeOrFourDimensionsAreImages) {
  const TemporaryFolder folder;
  const std::vector<uint8_t> pixels = {0, 51, 255, 102, 153, 204, 1, 2};
  for (const std::string shape : {"(2, 2, 2)", "(2, 1, 2, 2)"}) {
    const auto data = make_dataset({npy(write(folder, "x.npy", "|u1", shape, pixels))});
    EXPECT_EQ(data->info().kind, DatasetInfo::Kind::kImages);
    EXPECT_EQ(data->info().input_shape, (std::vector<int64_t>{1, 2, 2}));
    const Batch batch = samples(*data, {1, 0});
    EXPECT_FALSE(batch.targets.defined());
    const torch::Tensor expected = torch::tensor({153.F, 204.F, 1.F, 2.F, 0.F, 51.F, 255.F, 102.F}) / 255;
    EXPECT_TRUE(batch.inputs.flatten().allclose(expected, 1e-6, 0));
  }
}

TEST(Npy, OtherArraysBecomeFloatsOfTheirShape) {
  const TemporaryFolder folder;
  const auto numbers = write<int16_t>(folder, "x.npy", "<i2", "(2, 3)", {-1, 2, 300, -400, 5, 6}, 2);
  const auto data = make_dataset({npy(numbers)});
  EXPECT_EQ(data->info().kind, DatasetInfo::Kind::kVectors);
  EXPECT_TRUE(all_samples(*data).inputs.equal(torch::tensor({{-1.F, 2.F, 300.F}, {-400.F, 5.F, 6.F}})));
  const auto one_each = make_dataset({npy(write<double>(folder, "y.npy", "<f8", "(2,)", {0.5, -2}, 3))});
  EXPECT_TRUE(all_samples(*one_each).inputs.equal(torch::tensor({{0.5F}, {-2.F}})));
}

TEST(Npy, SizesMayBeWrittenAsPython2Did) {
  const TemporaryFolder folder;
  const auto path = folder.write("x.npy", npy_file(npy_dictionary("<f4", "(3L, 2L)"), std::string(24, '\0')));
  const auto data = make_dataset({npy(path)});
  EXPECT_EQ(data->size(), 3);
  EXPECT_EQ(data->info().input_shape, std::vector<int64_t>{2});
}

TEST(Npy, IntegersAreClassesCountedOverTheWholeFile) {
  const TemporaryFolder folder;
  const auto inputs = write<float>(folder, "x.npy", "<f4", "(4, 1)", {0, 1, 2, 3});
  const auto targets = write<uint8_t>(folder, "y.npy", "|u1", "(4,)", {6, 0, 1, 0});
  const Choice choice =
      npy(inputs, {{"targets", targets.string()}, {"first", int64_t{1}}, {"limit", int64_t{2}}});
  const auto data = make_dataset({choice});
  ASSERT_EQ(data->size(), 2);
  EXPECT_EQ(data->info().classes, 7);
  EXPECT_TRUE(all_samples(*data).inputs.equal(torch::tensor({{1.F}, {2.F}})));
  EXPECT_TRUE(all_samples(*data).targets.equal(torch::tensor({0, 1})));
}

TEST(Npy, FloatsAreNumbersToPredict) {
  const TemporaryFolder folder;
  const auto inputs = write<float>(folder, "x.npy", "<f4", "(2, 1)", {0, 1});
  const auto one = write<float>(folder, "y.npy", "<f4", "(2,)", {0.5F, 1.5F});
  const auto two = write<float>(folder, "z.npy", "<f4", "(2, 2)", {1, 2, 3, 4});
  const auto data = make_dataset({npy(inputs, {{"targets", one.string()}})});
  EXPECT_EQ(data->info().classes, 1);
  EXPECT_TRUE(all_samples(*data).targets.equal(torch::tensor({{0.5F}, {1.5F}})));
  EXPECT_EQ(make_dataset({npy(inputs, {{"targets", two.string()}})})->info().classes, 2);
}

TEST(Npy, SamplesStayOnDiskUntilTheyAreUsed) {
  const TemporaryFolder folder;
  for (const std::string shape : {"(1048576, 256)", "(1048576, 16, 16)"}) {
    const auto path = folder.write("x.npy", npy_file(npy_dictionary("|u1", shape), ""));
    std::filesystem::resize_file(path,
                                 std::filesystem::file_size(path) + (256 << 20));  // a hole, not written
    const CpuMeter meter;
    const auto data = make_dataset({npy(path)});
    EXPECT_EQ(samples(*data, {1048575}).inputs.abs().max().item<float>(), 0);
    EXPECT_LT(meter.peak().allocated_bytes, kMiB) << shape;
  }
}

TEST(Npy, OnlyImagesOfBytesAreAugmented) {
  const TemporaryFolder folder;
  const AugmentRecipe flip{.flip = true, .crop_padding = 0};
  const auto bytes = write<uint8_t>(folder, "x.npy", "|u1", "(1, 1, 2)", {0, 255});
  const auto floats = write<float>(folder, "y.npy", "<f4", "(1, 1, 1, 2)", {0, 1});
  const auto data = make_dataset({npy(bytes), flip});
  double left = 0;
  for (int64_t epoch = 0; epoch < 40; ++epoch) {
    const std::vector<int64_t> index = {0}, epochs = {epoch};
    left += data->get(index, SampleRandom(0, index, epochs)).inputs.flatten()[0].item<double>();
  }
  EXPECT_GT(left, 5);
  EXPECT_LT(left, 35);
  test::expect_error(ExitCode::kBadRecipe, [&] { make_dataset({npy(floats), flip}); });
}

TEST(Npy, TargetsThatDoNotFitAreRefused) {
  const TemporaryFolder folder;
  const auto inputs = write<float>(folder, "x.npy", "<f4", "(3, 1)", {0, 1, 2});
  const auto refuse = [&](const std::filesystem::path& targets, std::map<std::string, Value> more,
                          const std::string& message) {
    more["targets"] = targets.string();
    const Error error =
        test::expect_error(ExitCode::kBadData, [&] { make_dataset({npy(inputs, std::move(more))}); });
    EXPECT_TRUE(test::holds(error.what(), message));
  };
  refuse(write<int32_t>(folder, "few.npy", "<i4", "(2,)", {0, 1}), {}, "has 2 targets");
  const auto negative = write<int32_t>(folder, "negative.npy", "<i4", "(3,)", {0, -1, 1});
  refuse(negative, {}, "negative.npy: offset " + std::to_string(std::filesystem::file_size(negative) - 8));
  refuse(negative, {}, "the target -1 of sample 1 is negative");
  const auto classes = write<int64_t>(folder, "classes.npy", "<i8", "(3,)", {0, 1, 3});
  refuse(classes, {{"classes", int64_t{3}}}, "sample 2 is not below the 3 classes");
}

// What the loss makes of targets decides how a file of them is read.
class NpyTargets : public testing::Test {
 protected:
  static constexpr TargetUse kClasses{
      .kind = TargetUse::Kind::kClasses, .ignored = -100, .one_a_sample = true};
  static constexpr TargetUse kLabels{.kind = TargetUse::Kind::kLabels, .one_a_sample = true};
  static constexpr TargetUse kNumbers{.kind = TargetUse::Kind::kNumbers, .one_a_sample = true};

  template <class Number>
  Choice choice(const std::string& descr, const std::string& shape, const std::vector<Number>& targets,
                std::map<std::string, Value> more = {}) {
    more["targets"] = write<Number>(folder_, "y.npy", descr, shape, targets).string();
    return npy(inputs_, std::move(more));
  }

  std::string refusal(const Choice& of, const TargetUse& use) {
    return test::expect_error(ExitCode::kBadData, [&] { make_dataset({.choice = of, .targets = use}); })
        .what();
  }

  TemporaryFolder folder_;
  std::filesystem::path inputs_ = write<float>(folder_, "x.npy", "<f4", "(3, 2)", {0, 1, 2, 3, 4, 5});
};

TEST_F(NpyTargets, WholeNumbersAreNumbersUnderALossForNumbers) {
  for (const std::string shape : {"(3,)", "(3, 1)"}) {
    const Choice of = choice<int64_t>("<i8", shape, {3, -1, 7});
    const auto data = make_dataset({.choice = of, .targets = kNumbers});
    EXPECT_EQ(data->info().classes, 1);
    EXPECT_TRUE(all_samples(*data).targets.equal(torch::tensor({{3.F}, {-1.F}, {7.F}})));
  }
  const Choice wide = choice<uint8_t>("|u1", "(3, 2)", {1, 0, 0, 1, 5, 6});
  EXPECT_EQ(make_dataset({.choice = wide, .targets = kNumbers})->info().classes, 2);
  EXPECT_TRUE(
      test::holds(refusal(choice<int64_t>("<i8", "(3,)", {3, 1, 2}, {{"classes", int64_t{4}}}), kNumbers),
                  "classes is 4"));
}

TEST_F(NpyTargets, LabelsAreARowOfZerosAndOnes) {
  const Choice of = choice<uint8_t>("|u1", "(3, 2)", {1, 0, 0, 0, 1, 1});
  const auto data = make_dataset({.choice = of, .targets = kLabels});
  EXPECT_EQ(data->info().classes, 2);
  EXPECT_TRUE(all_samples(*data).targets.equal(torch::tensor({{1.F, 0.F}, {0.F, 0.F}, {1.F, 1.F}})));
  const Choice one = choice<uint8_t>("|b1", "(3,)", {1, 0, 1});
  EXPECT_EQ(all_samples(*make_dataset({.choice = one, .targets = kLabels})).targets.sizes(),
            (std::vector<int64_t>{3, 1}));
  const std::string why = refusal(choice<int16_t>("<i2", "(3,)", {0, 1, 2}), kLabels);
  EXPECT_TRUE(test::holds(why, "the label of sample 2 is 2")) << why;
  EXPECT_TRUE(test::holds(why, "cross_entropy")) << why;
}

TEST_F(NpyTargets, ShapesThatALossForClassesCannotTakeAreNamed) {
  const auto named = [&](const Choice& of, const TargetUse& use, const std::string& what,
                         const std::string& cure) {
    const std::string why = refusal(of, use);
    EXPECT_TRUE(test::holds(why, what)) << why;
    EXPECT_TRUE(test::holds(why, cure)) << why;
    EXPECT_TRUE(test::holds(why, "y.npy")) << why;
  };
  TargetUse of_program = kClasses;
  of_program.one_a_sample = false;
  for (const TargetUse& use : {kClasses, of_program}) {
    named(choice<uint8_t>("|u1", "(3, 3)", {1, 0, 0, 0, 0, 1, 0, 1, 0}), use, "one-hot, [3, 3] uint8",
          "argmax(1)");
    named(choice<float>("<f4", "(3, 2)", {1, 0, 0, 1, 0, 1}), use, "one-hot, [3, 2] float32", "argmax(1)");
    named(choice<float>("<f4", "(3, 2)", {.1F, .9F, 0, 1, 0, 1}), use, "are numbers, [3, 2]", "argmax(1)");
    named(choice<double>("<f8", "(3,)", {0, 1, 2}), use, "whole numbers saved as float64", "astype('int64')");
    named(choice<float>("<f4", "(3, 1)", {0, 1.5F, 2}), use, "to be predicted", "mean_squared_error");
  }
  const Choice mask = choice<uint8_t>("|u1", "(3, 2, 2)", {1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1});
  named(mask, kClasses, "[3, 2, 2] uint8, 4 for each sample", "exported");
  const auto data = make_dataset({.choice = mask, .targets = of_program});
  EXPECT_EQ(all_samples(*data).targets.sizes(), (std::vector<int64_t>{3, 2, 2}));
  // As many positions as the samples have may be marked, one of each, for a model that predicts for each.
  const Choice positions = choice<uint8_t>("|u1", "(3, 2)", {1, 0, 0, 1, 1, 0});
  EXPECT_EQ(make_dataset({.choice = positions, .targets = of_program})->info().classes, 2);
}

TEST_F(NpyTargets, TheIgnoredClassIsAllowedAndIsNone) {
  const TargetUse ignores{.kind = TargetUse::Kind::kClasses, .ignored = 255, .one_a_sample = true};
  EXPECT_EQ(make_dataset({.choice = choice<uint8_t>("|u1", "(3,)", {0, 255, 1}), .targets = ignores})
                ->info()
                .classes,
            2);
  const Choice negative = choice<int8_t>("|i1", "(3, 1)", {0, -100, 2});
  const auto data = make_dataset({.choice = negative, .targets = kClasses});
  EXPECT_EQ(data->info().classes, 3);
  EXPECT_TRUE(all_samples(*data).targets.equal(torch::tensor({0, -100, 2})));
  EXPECT_TRUE(
      test::holds(refusal(choice<uint8_t>("|u1", "(3,)", {255, 255, 255}), ignores), "every target is 255"));
  EXPECT_TRUE(test::holds(refusal(choice<int8_t>("|i1", "(3,)", {0, -1, 1}), kClasses), "-1 of sample 1"));
}

TEST_F(NpyTargets, NumbersThatWereNeverCountedAsClassesAreRefused) {
  const std::vector<int32_t> keys = {0, 1'000'000, 7};
  const std::string why = refusal(choice<int32_t>("<i4", "(3,)", keys), kClasses);
  EXPECT_TRUE(test::holds(why, "3 different values")) << why;
  EXPECT_TRUE(test::holds(why, "1,000,001 classes")) << why;
  const Choice given = choice<int32_t>("<i4", "(3,)", keys, {{"classes", int64_t{1'000'001}}});
  EXPECT_EQ(make_dataset({.choice = given, .targets = kClasses})->info().classes, 1'000'001);
}

TEST_F(NpyTargets, ValidationDataHaveTheClassesOfTheTrainingData) {
  const Choice train =
      npy(inputs_, {{"targets", write<int64_t>(folder_, "t.npy", "<i8", "(3,)", {0, 4, 1}).string()}});
  const Choice fewer = choice<int64_t>("<i8", "(3,)", {0, 2, 1});
  EXPECT_EQ(make_dataset({.choice = fewer, .targets = kClasses, .training = &train})->info().classes, 5);
  const Choice more = choice<int64_t>("<i8", "(3,)", {0, 2, 5});
  const std::string why = test::expect_error(ExitCode::kBadData, [&] {
                            make_dataset({.choice = more, .targets = kClasses, .training = &train});
                          }).what();
  EXPECT_TRUE(test::holds(why, "the target 5 of sample 2 is not below the 5 classes of the training data"))
      << why;
}

TEST_F(NpyTargets, ThatAreNoNumbersAreFoundAtTheStart) {
  const std::string why =
      refusal(choice<float>("<f4", "(3,)", {0, std::numeric_limits<float>::quiet_NaN(), 1}), kNumbers);
  EXPECT_TRUE(test::holds(why, "the target of sample 1 is nan")) << why;
}

TEST(Npy, ANumberThatIsNoneIsNamedWithItsSampleWhenItIsRead) {
  const TemporaryFolder folder;
  std::vector<float> numbers(600, 1.F);
  numbers[301] = std::numeric_limits<float>::infinity();
  const auto path = write<float>(folder, "x.npy", "<f4", "(2, 300)", numbers);
  const auto data = make_dataset({npy(path)});
  samples(*data, {0});
  const Error error = test::expect_error(ExitCode::kBadData, [&] { samples(*data, {1}); });
  EXPECT_TRUE(test::holds(error.what(), "the number 1 of sample 1 is inf")) << error.what();
  EXPECT_TRUE(test::holds(error.where(), "x.npy: offset ")) << error.where();
  // One of several inputs may be infinite, as what masks add is, but never no number.
  const auto named = [&] {
    return make_dataset({Choice{"npy", {{"arrays", std::vector{"x=" + path.string()}}}}});
  };
  EXPECT_TRUE(std::isinf(samples(*named(), {1}).inputs.max().item<float>()));
  numbers[301] = std::numeric_limits<float>::quiet_NaN();
  write<float>(folder, "x.npy", "<f4", "(2, 300)", numbers);
  const auto nan = named();
  test::expect_error(ExitCode::kBadData, [&] { samples(*nan, {1}); });
}

// ------------------------------------------------------------------ channels

template <class Number>
std::vector<Number> counted(int64_t count) {
  std::vector<Number> numbers(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) numbers[static_cast<size_t>(i)] = static_cast<Number>(i % 251);
  return numbers;
}

TEST(Npy, ImagesWithTheirChannelsLastAreTheSameImages) {
  const TemporaryFolder folder;
  for (const AugmentRecipe& augment : {AugmentRecipe{}, AugmentRecipe{.flip = true, .crop_padding = 2}}) {
    const torch::Tensor images =
        torch::tensor(counted<uint8_t>(4 * 6 * 5 * 3), torch::kUInt8).view({4, 6, 5, 3});
    const torch::Tensor first = images.permute({0, 3, 1, 2}).contiguous();
    const auto* const bytes = first.const_data_ptr<uint8_t>();
    const Choice as_last = npy(write(folder, "l.npy", "|u1", "(4, 6, 5, 3)", counted<uint8_t>(360)));
    const Choice as_first =
        npy(write(folder, "f.npy", "|u1", "(4, 3, 6, 5)", std::vector<uint8_t>(bytes, bytes + 360)));
    const auto a = make_dataset({as_last, augment}), b = make_dataset({as_first, augment});
    EXPECT_EQ(a->info().input_shape, (std::vector<int64_t>{3, 6, 5}));
    EXPECT_TRUE(all_samples(*a).inputs.equal(all_samples(*b).inputs));
  }
  const Choice floats = npy(write(folder, "x.npy", "<f4", "(2, 6, 5, 3)", counted<float>(180)));
  const auto data = make_dataset({floats});
  EXPECT_EQ(data->info().input_shape, (std::vector<int64_t>{3, 6, 5}));
  const torch::Tensor whole = torch::tensor(counted<float>(180)).view({2, 6, 5, 3});
  EXPECT_TRUE(all_samples(*data).inputs.equal(whole.permute({0, 3, 1, 2})));
}

TEST(Npy, TheShapeSaysWhereChannelsAreOrTheKeyDoes) {
  const TemporaryFolder folder;
  const auto shape_of = [&](const std::string& shape, int64_t elements, const std::string& channels) {
    const Choice of =
        npy(write(folder, "x.npy", "<f4", shape, counted<float>(elements)), {{"channels", channels}});
    return make_dataset({of})->info().input_shape;
  };
  using Shape = std::vector<int64_t>;
  EXPECT_EQ(shape_of("(2, 8, 8, 1)", 128, "auto"), (Shape{1, 8, 8}));
  EXPECT_EQ(shape_of("(2, 5, 7, 4)", 280, "auto"), (Shape{4, 5, 7}));
  EXPECT_EQ(shape_of("(2, 5, 7, 4)", 280, "first"), (Shape{5, 7, 4}));
  EXPECT_EQ(shape_of("(2, 3, 8, 8)", 384, "auto"), (Shape{3, 8, 8}));
  EXPECT_EQ(shape_of("(2, 3, 8, 8)", 384, "last"), (Shape{8, 3, 8}));
  EXPECT_EQ(shape_of("(2, 64, 1, 1)", 128, "auto"), (Shape{64, 1, 1}));  // features
  EXPECT_EQ(shape_of("(2, 9, 8, 2)", 288, "auto"), (Shape{2, 9, 8}));
  EXPECT_EQ(shape_of("(2, 16, 7, 7)", 1568, "auto"), (Shape{16, 7, 7}));
  for (const auto& [shape, elements] : {std::pair("(2, 3, 8, 3)", 144), std::pair("(2, 3, 8, 1)", 48),
                                        std::pair("(2, 2, 8, 2)", 64), std::pair("(2, 12, 12, 5)", 1440),
                                        std::pair("(2, 16, 50, 1)", 1600), std::pair("(2, 3, 3, 3)", 54)}) {
    const Error error = test::expect_error(ExitCode::kBadData, [&] { shape_of(shape, elements, "auto"); });
    EXPECT_TRUE(test::holds(error.what(), "channels: first or channels: last")) << error.what();
    shape_of(shape, elements, "first");
    shape_of(shape, elements, "last");
  }
}

TEST(Npy, FilesAndRangesThatAreNotThereAreNamed) {
  const TemporaryFolder folder;
  test::expect_error(ExitCode::kBadRecipe, [] { make_dataset({Choice{"npy", {}}}); });
  test::expect_error(ExitCode::kMissingFile, [&] { make_dataset({npy(folder / "none.npy")}); });
  const auto inputs = write<float>(folder, "x.npy", "<f4", "(3, 1)", {0, 1, 2});
  test::expect_error(ExitCode::kBadData, [&] { make_dataset({npy(inputs, {{"first", int64_t{3}}})}); });
}

TEST(Npy, SeveralArraysAreInputsOfTheirOwnTypes) {
  const TemporaryFolder folder;
  const auto named = [](const std::string& name, const std::filesystem::path& path) {
    return name + "=" + path.string();
  };
  const std::vector<std::string> arrays = {
      named("tokens", write<int16_t>(folder, "t.npy", "<i2", "(3, 2)", {1, 2, 3, 4, 5, -6})),
      named("mask", write<uint8_t>(folder, "m.npy", "|b1", "(3, 2)", {0, 1, 1, 0, 0, 0})),
      named("age", write<double>(folder, "a.npy", "<f8", "(3,)", {0.5, 1.5, -2})),
      named("image", write<uint8_t>(folder, "i.npy", "|u1", "(3, 1, 2)", {0, 255, 51, 102, 153, 204}))};
  const auto targets = write<int64_t>(folder, "y.npy", "<i8", "(3,)", {0, 1, 2});
  const auto data = make_dataset(
      {Choice{"npy", {{"arrays", arrays}, {"targets", targets.string()}, {"first", int64_t{1}}}}});
  const std::vector<InputInfo> expected = {{"tokens", torch::kInt64, {2}},
                                           {"mask", torch::kBool, {2}},
                                           {"age", torch::kFloat32, {1}, true},
                                           {"image", torch::kFloat32, {1, 1, 2}}};
  EXPECT_EQ(data->info().inputs, expected);
  EXPECT_EQ(data->size(), 2);

  const Batch batch = samples(*data, {1, 0});
  ASSERT_EQ(batch.more_inputs.size(), 3U);
  EXPECT_TRUE(batch.inputs.equal(torch::tensor({{5, -6}, {3, 4}}, torch::kInt64)));
  EXPECT_TRUE(batch.more_inputs[0].equal(torch::tensor({{false, false}, {true, false}})));
  EXPECT_TRUE(batch.more_inputs[1].equal(torch::tensor({{-2.F}, {1.5F}})));
  EXPECT_TRUE(
      batch.more_inputs[2].flatten().allclose(torch::tensor({153.F, 204.F, 51.F, 102.F}) / 255, 1e-6, 0));
  EXPECT_TRUE(batch.targets.equal(torch::tensor({2, 1})));
}

TEST(Npy, ArraysThatDoNotBelongTogetherAreNamed) {
  const TemporaryFolder folder;
  const std::string three = write<float>(folder, "x.npy", "<f4", "(3, 1)", {0, 1, 2}).string();
  const std::string two = write<float>(folder, "z.npy", "<f4", "(2, 1)", {0, 1}).string();
  const auto make = [](std::vector<std::string> arrays, std::map<std::string, Value> more = {}) {
    more["arrays"] = std::move(arrays);
    make_dataset({Choice{"npy", std::move(more)}});
  };
  const Error lengths = test::expect_error(ExitCode::kBadData, [&] { make({"a=" + three, "b=" + two}); });
  EXPECT_TRUE(test::holds(lengths.what(), "z.npy"));
  EXPECT_TRUE(test::holds(lengths.what(), "has 2 samples"));
  test::expect_error(ExitCode::kBadRecipe, [&] { make({"a=" + three, "a=" + three}); });
  test::expect_error(ExitCode::kBadRecipe, [&] { make({"a=" + three}, {{"inputs", three}}); });
}

// ------------------------------------------------------------------ looks

class NpyLook : public testing::Test {
 protected:
  Choice choice(const std::string& name, const std::vector<float>& inputs,
                const std::vector<uint8_t>& targets) {
    const std::string rows = std::to_string(targets.size());
    const auto x = write<float>(folder_, name + "x.npy", "<f4", "(" + rows + ", 4)", inputs);
    return npy(x, {{"targets",
                    write<uint8_t>(folder_, name + "y.npy", "|u1", "(" + rows + ",)", targets).string()}});
  }

  static DataLook look(const Choice& of, LookDepth depth, const Choice* train = nullptr,
                       int64_t ignored = -100) {
    const TargetUse use{.kind = TargetUse::Kind::kClasses, .ignored = ignored, .one_a_sample = true};
    const auto data = make_dataset({.choice = of, .targets = use, .training = train});
    const auto training = train == nullptr ? nullptr : make_dataset({.choice = *train, .targets = use});
    return look_at({.choice = of, .targets = use, .training = train}, *data, training.get(),
                   {.depth = depth, .threads = 2});
  }

  static std::string places_of(const DataLook& look, const std::string& kind) {
    for (const Doubt& doubt : look.doubts) {
      if (test::holds(doubt.kind, kind)) return doubt.places.empty() ? "-" : doubt.places[0];
    }
    return "";
  }

  TemporaryFolder folder_;
  std::vector<float> inputs_ = {1, 2, 3, 0, 5, 6, 7, 0, 9, 10, 11, 0};
};

TEST_F(NpyLook, DoubtsNumbersThatNoOneScales) {
  const auto images = [&](const std::string& name, float most) {
    const auto x = write<float>(folder_, name + "x.npy", "<f4", "(3, 2, 2)",
                                std::vector<float>{0, 1, 2, most, 0, 1, 2, 3, 0, 1, 2, 3});
    return npy(
        x,
        {{"targets",
          write<uint8_t>(folder_, name + "y.npy", "|u1", "(3,)", std::vector<uint8_t>{0, 1, 1}).string()}});
  };
  const Choice pixels = images("p", 255), large = images("l", 60000), small = images("s", 1);
  const auto start = LookDepth::kStart;
  EXPECT_TRUE(test::holds(places_of(look(pixels, start), "not divided by it"), "float32, 0 to 255"));
  EXPECT_TRUE(test::holds(places_of(look(large, start), "used as they are"), "float32, 0 to 6e+04"));
  EXPECT_TRUE(look(small, start).doubts.empty());
  EXPECT_TRUE(test::holds(places_of(look(pixels, start, &small), "another size"), "up to 255; "));
  EXPECT_EQ(places_of(look(small, start, &small), "another size"), "");
  // Whole numbers in rows: tokens are small, times and keys of a database are not.
  const auto rows = [&](const std::string& name, int64_t most) {
    const auto x =
        write<int64_t>(folder_, name + "x.npy", "<i8", "(3, 2)", std::vector<int64_t>{0, 1, 2, most, 4, 5});
    return npy(
        x,
        {{"targets",
          write<uint8_t>(folder_, name + "y.npy", "|u1", "(3,)", std::vector<uint8_t>{0, 1, 1}).string()}});
  };
  EXPECT_TRUE(test::holds(places_of(look(rows("t", 1'700'000'000), start), "used as they are"),
                          "int64, 0 to 1.7e+09"));
  EXPECT_TRUE(look(rows("v", 50'000), start).doubts.empty());
}

TEST_F(NpyLook, DoubtsInputsThatAreSmallOrAllAlike) {
  std::vector<float> small = inputs_;
  for (float& number : small) number /= 100'000;
  const auto start = LookDepth::kStart;
  EXPECT_TRUE(test::holds(places_of(look(choice("s", small, {0, 1, 1}), start), "inputs of small numbers"),
                          "float32, 0 to 0.00011"));
  const std::vector<float> zeros(12);
  EXPECT_TRUE(
      test::holds(places_of(look(choice("z", zeros, {0, 1, 1}), start), "all the same number"), "zx.npy: 0"));
  EXPECT_TRUE(look(choice("", inputs_, {0, 1, 1}), start).doubts.empty());
}

TEST_F(NpyLook, DoubtsLargeTargetsAndThoseOfOtherUnits) {
  const auto numbers = [&](const std::string& name, float times) {
    std::vector<float> inputs = inputs_;
    inputs[0] = static_cast<float>(name[0] - 'a');  // files that are alike are doubted, too
    const auto x = write<float>(folder_, name + "x.npy", "<f4", "(3, 4)", inputs);
    const auto y = write<float>(folder_, name + "y.npy", "<f4", "(3,)", {1 * times, 2 * times, 4 * times});
    return npy(x, {{"targets", y.string()}});
  };
  const auto looked = [](const Choice& of, const Choice* train) {
    const TargetUse use{.kind = TargetUse::Kind::kNumbers, .one_a_sample = true};
    const auto data = make_dataset({.choice = of, .targets = use, .training = train});
    const auto training = train == nullptr ? nullptr : make_dataset({.choice = *train, .targets = use});
    return look_at({.choice = of, .targets = use, .training = train}, *data, training.get(), {});
  };
  const Choice plain = numbers("p", 1), large = numbers("l", 50'000), near = numbers("n", 1.5);
  EXPECT_TRUE(looked(plain, nullptr).doubts.empty());
  EXPECT_TRUE(test::holds(places_of(looked(large, nullptr), "targets of large numbers"), "5e+04 to 2e+05"));
  EXPECT_TRUE(test::holds(places_of(looked(large, &plain), "targets of another size"), "py.npy: 1 to 4"));
  EXPECT_TRUE(test::holds(places_of(looked(plain, &large), "targets of another size"), "py.npy: 1 to 4"));
  EXPECT_TRUE(looked(near, &plain).doubts.empty());
  const auto copy = folder_ / "copy.npy";
  std::filesystem::copy_file(folder_ / "px.npy", copy);
  const Choice copied = npy(copy, {{"targets", (folder_ / "ny.npy").string()}});
  EXPECT_TRUE(test::holds(places_of(looked(copied, &plain), "samples of the training data"), "0 to 2"));
}

TEST(Npy, WhatMovesPixelsDoesNotGoWithTargetsOfPixels) {
  const TemporaryFolder folder;
  const auto images = write<uint8_t>(folder, "x.npy", "|u1", "(2, 2, 2)", {1, 2, 3, 4, 5, 6, 7, 8});
  const auto masks = write<uint8_t>(folder, "m.npy", "|u1", "(2, 2, 2)", {0, 1, 1, 0, 0, 1, 1, 0});
  const auto labels = write<uint8_t>(folder, "y.npy", "|u1", "(2,)", {0, 1});
  const auto make = [&](const std::filesystem::path& targets, const AugmentRecipe& augment) {
    const Choice choice = npy(images, {{"targets", targets.string()}});
    const TargetUse use{.kind = TargetUse::Kind::kClasses};
    return make_dataset({.choice = choice, .augment = augment, .targets = use});
  };
  for (const AugmentRecipe& augment : {AugmentRecipe{.crop_padding = 1}, AugmentRecipe{.flip = true}}) {
    const Error error = test::expect_error(ExitCode::kBadRecipe, [&] { make(masks, augment); });
    EXPECT_TRUE(test::holds(error.where(), augment.flip ? "data.augment.flip" : "data.augment.crop_padding"));
    EXPECT_TRUE(test::holds(error.problem(), "which are 2 × 2 for each"));
    EXPECT_EQ(make(labels, augment)->size(), 2);
  }
  EXPECT_EQ(make(masks, {})->size(), 2);
}

TEST_F(NpyLook, DoubtsHowClassesAreNumbered) {
  const auto start = LookDepth::kStart;
  EXPECT_TRUE(
      test::holds(places_of(look(choice("", inputs_, {0, 255, 0}), start), "more than half are absent"),
                  "y.npy: 2 different values, 0 and 255; 256 classes are made"));
  EXPECT_TRUE(test::holds(places_of(look(choice("", inputs_, {1, 2, 3}), start), "counted from 1"),
                          "the smallest target is 1"));
  EXPECT_TRUE(
      test::holds(places_of(look(choice("", inputs_, {0, 1, 3}), start), "without a sample"), "y.npy: 2"));
  EXPECT_TRUE(
      test::holds(places_of(look(choice("", inputs_, {1, 1, 1}), start), "all alike"), "every target is 1"));
  EXPECT_TRUE(look(choice("", inputs_, {0, 1, 1}), start).doubts.empty());
  const DataLook ignoring = look(choice("", inputs_, {0, 255, 1}), start, nullptr, 255);
  EXPECT_TRUE(ignoring.doubts.empty());
  ASSERT_EQ(ignoring.bars.size(), 1U);
  EXPECT_EQ(ignoring.bars[0].counts, (std::vector<int64_t>{1, 1}));
}

TEST_F(NpyLook, FindsNumbersThatAreNoneConstantFeaturesAndRepeatedSamples) {
  const Choice good = choice("", inputs_, {0, 1, 1});
  EXPECT_EQ(places_of(look(good, LookDepth::kStart), "same in every sample"), "");
  EXPECT_TRUE(
      test::holds(places_of(look(good, LookDepth::kWhole), "same in every sample"), "x.npy: feature 3: 0"));
  std::vector<float> bad = inputs_;
  bad[6] = std::numeric_limits<float>::quiet_NaN();
  for (const LookDepth depth : {LookDepth::kStart, LookDepth::kWhole}) {
    const DataLook found = look(choice("b", bad, {0, 1, 1}), depth);
    EXPECT_TRUE(test::holds(places_of(found, "not finite"), "bx.npy: sample 1, number 2: nan"));
    ASSERT_FALSE(found.doubts.empty());
    EXPECT_TRUE(found.doubts[0].stops);
  }
  std::vector<float> twice = inputs_;
  std::copy_n(twice.begin(), 4, twice.begin() + 8);
  EXPECT_TRUE(test::holds(places_of(look(choice("t", twice, {0, 1, 1}), LookDepth::kWhole), "more than once"),
                          "tx.npy: sample 2"));
}

TEST_F(NpyLook, ComparesValidationWithTrainingData) {
  const Choice train = choice("", inputs_, {0, 2, 2});
  const Choice same = train;
  EXPECT_TRUE(test::holds(places_of(look(same, LookDepth::kStart, &train), "validation data read, too"),
                          "x.npy: 0 to 2"));
  const Choice copy = choice("v", inputs_, {0, 1, 2});
  EXPECT_TRUE(test::holds(places_of(look(copy, LookDepth::kStart, &train), "training data lack"),
                          "vy.npy: class 1, sample 1"));
  EXPECT_TRUE(test::holds(places_of(look(copy, LookDepth::kWhole, &train), "training data have, too"),
                          "vx.npy: sample 0"));
}

TEST(Finite, TheFirstValueThatIsNotIsNamed) {
  const float infinity = std::numeric_limits<float>::infinity();
  Batch batch{torch::zeros({2, 600}), torch::zeros({2, 1}), 2, {torch::ones({2, 3})}};
  EXPECT_FALSE(first_value_that_is_not_finite(batch).has_value());
  batch.targets[1] = infinity;
  EXPECT_EQ(first_value_that_is_not_finite(batch)->of, "targets");
  batch.more_inputs[0][1][2] = std::nan("");
  DatasetInfo info;
  info.inputs = {{"image"}, {"mask"}};
  const auto found = first_value_that_is_not_finite(batch, info);
  EXPECT_EQ(found->of, "mask");
  EXPECT_EQ(found->sample, 1);
  EXPECT_TRUE(std::isnan(found->value));
}

struct NpyDamage {
  const char* name;
  std::string content;
  std::string message;
};

class NpyDamaged : public testing::TestWithParam<NpyDamage> {};

TEST_P(NpyDamaged, IsBadDataThatSaysWhy) {
  const TemporaryFolder folder;
  const auto path = folder.write("x.npy", GetParam().content);
  const Error error = test::expect_error(ExitCode::kBadData, [&] { make_dataset({npy(path)}); });
  EXPECT_TRUE(test::holds(error.what(), GetParam().message));
  EXPECT_TRUE(test::holds(error.where(), "x.npy"));
}

std::string of_dictionary(const std::string& dictionary) {
  return npy_file(dictionary, std::string(24, '\0'));
}

std::string of_shape(const std::string& shape) {
  return of_dictionary(npy_dictionary("<f4", shape));
}

std::string of_type(const std::string& descr) {
  return of_dictionary(npy_dictionary(descr, "(6,)"));
}

std::string repeated(const std::string& part, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += part;
  return out;
}

INSTANTIATE_TEST_SUITE_P(
    Each, NpyDamaged,
    testing::Values(
        NpyDamage{"Empty", "", "is empty"},
        NpyDamage{"OtherFormat", "\x01 and so on", "offset 0: does not start"},
        NpyDamage{"Archive", "PK\x03\x04 and so on", "is a zip archive, as numpy.savez"},
        NpyDamage{"Pickle", "\x80\x04\x95 and so on", "is a pickle of Python's"},
        NpyDamage{"Csv", repeated("1,2,3\n", 20), "is text, not an array"},
        NpyDamage{"Version", npy_file(npy_dictionary("<f4", "(6,)"), std::string(24, '\0'), 4), "version 4"},
        NpyDamage{"CutInPrefix", std::string("\x93NUMPY\x02\x00\x10", 9), "offset 9: the file ends"},
        NpyDamage{"LongHeader", std::string("\x93NUMPY\x02\x00\xff\xff\xff\x7f{}", 14),
                  "offset 8: the header has 2147483647 bytes; 2 are there"},
        NpyDamage{"NoDictionary", of_dictionary("[1, 2]"), "offset 10: '{' is missing"},
        NpyDamage{"NotClosed", of_dictionary("{'descr': '<f4',"), "a text in quotes is missing"},
        NpyDamage{"MoreAfter", of_dictionary(npy_dictionary("<f4", "(6,)") + " + x"), "goes on after"},
        NpyDamage{"ZeroAfter", of_dictionary(npy_dictionary("<f4", "(6,)") + std::string(3, '\0')),
                  "goes on after"},
        NpyDamage{"KeyMissing", of_dictionary("{'descr': '<f4', 'shape': (6,)}"), "does not give all"},
        NpyDamage{"KeyTwice", of_dictionary("{'shape': (6,), 'shape': (6,)}"), "names \"shape\" twice"},
        NpyDamage{"KeyUnknown", of_dictionary("{'shapes': (6,)}"), "offset 11: the header names \"shapes\""},
        NpyDamage{"NoComma", of_dictionary("{'descr': '<f4' 'shape': (6,)}"), "',' or '}' is missing"},
        NpyDamage{"Backslash", of_dictionary("{'de\\x73cr': '<f4'}"), "backslash"},
        NpyDamage{"Records", of_dictionary("{'descr': [('a', '<f4')], }"), "structured_to_unstructured"},
        NpyDamage{"Order", of_dictionary(npy_dictionary("<f4", "(6,)", "Maybe")), "True or False is missing"},
        NpyDamage{"ByColumns", of_dictionary(npy_dictionary("<f4", "(3, 2)", "True")), "ascontiguousarray"},
        NpyDamage{"BigEndian", of_type(">f4"), "big endian"},
        NpyDamage{"Eight", of_type("<u8"), "\"<u8\" are not read"},
        NpyDamage{"Complex", of_type("<c8"), "\"<c8\" are not read"},
        NpyDamage{"Objects", of_type("|O"), "objects of Python"},
        NpyDamage{"Texts", of_type("<U3"), "are texts"}, NpyDamage{"NoType", of_type(""), "are not read"},
        NpyDamage{"Negative", of_shape("(-6,)"), "a size below 2⁶³ is missing"},
        NpyDamage{"Expression", of_shape("(3*2,)"), "',' is missing"},
        NpyDamage{"NoTuple", of_shape("(6)"), "',' is missing"},
        NpyDamage{"LongTwice", of_shape("(6LL,)"), "',' is missing"},
        NpyDamage{"NoSize", of_shape("(,)"), "a size below"},
        NpyDamage{"Scalar", npy_file(npy_dictionary("<f4", "()"), "abcd"), "holds one number"},
        NpyDamage{"NoElements", npy_file(npy_dictionary("<f4", "(3, 0)"), ""), "no elements"},
        NpyDamage{"TooLarge", of_shape("(9223372036854775808,)"), "a size below"},
        NpyDamage{"Overflow", of_shape("(4294967296, 4294967296, 4294967296)"), "24 bytes are there"},
        NpyDamage{"Dimensions", of_shape("(" + repeated("1, ", 66) + ")"), "more than 64 dimensions"},
        NpyDamage{"Short", of_shape("(7,)"), "promises 7 elements of float32, 28 bytes; 24 bytes are there"},
        NpyDamage{"Long", of_shape("(5,)"), "promises 5 elements of float32, 20 bytes; 24 bytes are there"}),
    [](const auto& instance) { return std::string(instance.param.name); });

}  // namespace
}  // namespace autotrain
