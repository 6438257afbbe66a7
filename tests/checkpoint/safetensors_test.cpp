#include "checkpoint/safetensors.h"

#include "base/random.h"
#include "device/cpu_meter.h"
#include "support/support.h"

namespace autotrain {
namespace {

using test::TemporaryFolder;

std::vector<NamedTensor> samples() {
  return {{"a.weight", torch::randn({3, 4})},
          {"half", torch::randn({5}).to(torch::kBFloat16)},
          {"count", torch::tensor(int64_t{42})},
          {"empty", torch::empty({0, 7})},
          {"flags", torch::tensor({true, false, true})},
          {"transposed", torch::randn({4, 3}).t()}};
}

std::string with_header(const std::string& header, const std::string& data) {
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + header + data;
}

TEST(Safetensors, ReadsBackWhatItWrites) {
  const TemporaryFolder folder;
  const auto written = samples();
  write_safetensors(folder / "x", written);
  const auto read = read_safetensors(folder / "x");
  ASSERT_EQ(read.size(), written.size());
  for (size_t i = 0; i < read.size(); ++i) {
    EXPECT_EQ(read[i].name, written[i].name);
    EXPECT_EQ(read[i].tensor.scalar_type(), written[i].tensor.scalar_type());
    EXPECT_TRUE(read[i].tensor.equal(written[i].tensor)) << read[i].name;
  }
}

TEST(Safetensors, EqualTensorsGiveEqualBytes) {
  const TemporaryFolder folder;
  const auto tensors = samples();
  write_safetensors(folder / "x", tensors);
  write_safetensors(folder / "y", tensors);
  EXPECT_EQ(test::slurp(folder / "x"), test::slurp(folder / "y"));
}

// Weights that two layers share stand once in the file, as Python's save_model writes them, and are shared
// again.
TEST(Safetensors, TiedTensorsAreWrittenOnceAndReadIntoAllTheirNames) {
  const TemporaryFolder folder;
  const torch::Tensor shared = torch::randn({1000});
  write_safetensors(folder / "x", {{"in", shared}, {"bias", torch::zeros({2})}, {"out", shared}});
  EXPECT_LT(std::filesystem::file_size(folder / "x"), 2 * shared.nbytes());
  EXPECT_TRUE(test::holds(test::slurp(folder / "x"), R"("__metadata__":{"out":"in"})"));
  const torch::Tensor live = torch::zeros({1000}), bias = torch::ones({2});
  read_safetensors_into(folder / "x", {{"in", live}, {"bias", bias}, {"out", live}}, "");
  EXPECT_TRUE(live.equal(shared));
  const Error error = test::expect_error(ExitCode::kBadData, [&] {
    read_safetensors_into(folder / "x", {{"in", live}, {"bias", bias}, {"out", torch::zeros({1000})}}, "");
  });
  EXPECT_TRUE(test::holds(error.what(), "not in the file: out")) << "two tensors where the file has one";
  live.zero_();
  write_safetensors(folder / "y", {{"bias", bias}, {"out", shared}});
  read_safetensors_into(folder / "y", {{"in", live}, {"bias", bias}, {"out", live}}, "");
  EXPECT_TRUE(live.equal(shared)) << "one of its names is enough";
}

// Scales of eight bits beside the weights, which nobody asks for, are no reason to refuse these.
TEST(Safetensors, ATypeThatIsNotReadIsRefusedWhereItsTensorIsWanted) {
  const TemporaryFolder folder;
  const auto file =
      folder.write("x", with_header(R"({"a":{"dtype":"F8_E4M3","shape":[3],"data_offsets":[0,3]},)"
                                    R"("b":{"dtype":"U8","shape":[2],"data_offsets":[3,5]}})",
                                    "xyz\x01\x02"));
  const std::vector<TensorEntry> entries = list_safetensors(file);
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].unread_type, "F8_E4M3");
  EXPECT_EQ(entries[1].unread_type, "");
  const auto read = [&](const std::string& name) {
    const torch::Tensor wanted = torch::zeros({name == "a" ? 3 : 2});
    read_some_safetensors(
        file, [&](const TensorEntry& entry) { return entry.name == name ? wanted : torch::Tensor(); });
    return wanted;
  };
  EXPECT_TRUE(read("b").equal(torch::tensor({1.0f, 2.0f})));
  const Error error = test::expect_error(ExitCode::kBadData, [&] { read("a"); });
  EXPECT_TRUE(test::holds(error.what(), R"("a" is of type "F8_E4M3")"));
}

class SafetensorsHostile : public testing::TestWithParam<std::string> {};

TEST_P(SafetensorsHostile, IsBadDataAndAllocatesNothing) {
  const TemporaryFolder folder;
  const auto path = folder.write("x", GetParam());
  CpuMeter meter;
  test::expect_error(ExitCode::kBadData, [&] { read_safetensors(path); });
  EXPECT_LT(meter.peak().allocated_bytes, 1 << 16);
}

INSTANTIATE_TEST_SUITE_P(
    Files, SafetensorsHostile,
    testing::Values(
        "", "short", std::string(8, '\xff'), with_header("{}", "extra"), with_header("[]", ""),
        with_header(R"({"a":{"dtype":"U8","shape":[1e300],"data_offsets":[0,1]}})", "x"),
        with_header(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1.5]}})", "x"),
        with_header("{\"a\": 1}", ""), with_header("not json", ""),
        with_header(R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,8]}})", "12345678"),
        with_header(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "1234"),
        with_header(R"({"a":{"dtype":"X9","shape":[2],"data_offsets":[0,8]}})", "12345678"),
        with_header(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", "12345678"),
        with_header(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", ""),
        with_header(R"({"a":{"dtype":"F32","shape":[1000000000000],"data_offsets":[0,4000000000000]}})", "1"),
        with_header(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", "12345678"),
        with_header(
            R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
            "12345678"),
        with_header(R"({"a":{"dtype":"F32","shape":"x","data_offsets":[0,8]}})", "12345678")));

TEST(Safetensors, EveryCutOfAFileIsRecognised) {
  const TemporaryFolder folder;
  write_safetensors(folder / "x", samples());
  const std::string whole = test::slurp(folder / "x");
  for (size_t length = 0; length < whole.size(); length += 1 + length / 16) {
    const auto path = folder.write("cut", whole.substr(0, length));
    test::expect_error(ExitCode::kBadData, [&] { read_safetensors(path); });
  }
}

}  // namespace
}  // namespace autotrain
