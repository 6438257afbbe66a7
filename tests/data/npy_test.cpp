#include "support/npy.h"
#include "base/units.h"
#include "data/datasets.h"
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
                                           {"age", torch::kFloat32, {1}},
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
        NpyDamage{"Empty", "", "offset 0: does not start"},
        NpyDamage{"OtherFormat", "PK\x03\x04 and so on", "offset 0: does not start"},
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
        NpyDamage{"Records", of_dictionary("{'descr': [('a', '<f4')], }"), "records of several fields"},
        NpyDamage{"Order", of_dictionary(npy_dictionary("<f4", "(6,)", "Maybe")), "True or False is missing"},
        NpyDamage{"ByColumns", of_dictionary(npy_dictionary("<f4", "(3, 2)", "True")), "ascontiguousarray"},
        NpyDamage{"BigEndian", of_type(">f4"), "big endian"},
        NpyDamage{"Complex", of_type("<c8"), "\"<c8\" are not read"},
        NpyDamage{"Objects", of_type("|O"), "are not read"}, NpyDamage{"NoType", of_type(""), "are not read"},
        NpyDamage{"Negative", of_shape("(-6,)"), "a size below 2⁶³ is missing"},
        NpyDamage{"Expression", of_shape("(3*2,)"), "',' is missing"},
        NpyDamage{"NoTuple", of_shape("(6)"), "',' is missing"},
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
