#include "data/idx.h"

#include <zlib.h>

#include "base/units.h"
#include "device/cpu_meter.h"
#include "support/idx.h"
#include "support/support.h"

namespace autotrain {
namespace {

using test::TemporaryFolder;
using test::word;

std::string images(uint32_t count, uint32_t height, uint32_t width, size_t bytes) {
  return word(0x803) + word(count) + word(height) + word(width) + std::string(bytes, '\x07');
}

std::string zipped(const std::string& content) {
  const TemporaryFolder folder;
  const std::string path = (folder / "x.gz").string();
  gzFile file = ::gzopen(path.c_str(), "wb");
  ::gzwrite(file, content.data(), static_cast<unsigned>(content.size()));
  ::gzclose(file);
  return test::slurp(path);
}

TEST(Idx, ReadsPlainAndGzippedAlike) {
  const TemporaryFolder folder;
  const std::string content = images(3, 2, 4, 24);
  for (const auto& path : {folder.write("a", content), folder.write("b.gz", zipped(content))}) {
    const torch::Tensor tensor = read_idx(path, 3);
    EXPECT_EQ(tensor.sizes(), (std::vector<int64_t>{3, 2, 4}));
    EXPECT_EQ(tensor.sum().item<int64_t>(), 24 * 7);
  }
}

struct DamagedIdx {
  const char* name;
  std::string content;
  size_t dimensions;
  std::string message;
};

class IdxDamage : public testing::TestWithParam<DamagedIdx> {};

TEST_P(IdxDamage, IsBadDataWithTheOffset) {
  const TemporaryFolder folder;
  for (const bool gz : {false, true}) {
    const auto path = folder.write("file", gz ? zipped(GetParam().content) : GetParam().content);
    const Error error =
        test::expect_error(ExitCode::kBadData, [&] { read_idx(path, GetParam().dimensions); });
    EXPECT_TRUE(test::holds(error.what(), GetParam().message)) << (gz ? "gzipped" : "plain");
    EXPECT_TRUE(test::holds(error.what(), "file: offset "));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Each, IdxDamage,
    testing::Values(DamagedIdx{"Empty", "", 3, "inside its header"},
                    DamagedIdx{"HeaderCut", word(0x803) + "ab", 3, "inside its header"},
                    DamagedIdx{"LabelsForImages", word(0x801) + word(4) + "abcd", 3, "images have 2051"},
                    DamagedIdx{"ImagesForLabels", images(1, 2, 2, 4), 1, "labels have 2049"},
                    DamagedIdx{"OtherType", word(0xd03) + word(1), 3, "magic number"},
                    DamagedIdx{"ZeroRows", images(3, 0, 4, 0), 3, "dimension 1 is 0"},
                    DamagedIdx{"Truncated", images(3, 2, 4, 20), 3, "promise"},
                    DamagedIdx{"TooLong", images(3, 2, 4, 30), 3, "promises"},
                    DamagedIdx{"FourBillionImages", images(0xffffffff, 28, 28, 1000), 3, "cannot hold that"},
                    DamagedIdx{"Overflowing", images(0xffffffff, 0xffffffff, 0xffffffff, 16), 3,
                               "cannot hold that"}),
    [](const auto& instance) { return std::string(instance.param.name); });

TEST(Idx, ALyingHeaderAllocatesNothing) {
  const TemporaryFolder folder;
  CpuMeter meter;
  // 40 MiB of zeros shrink to 40 KiB; the header promises as much as gzip could ever expand that to.
  const std::string lie = zipped(images(30'000, 1000, 1, 1000) + std::string(40 << 20, '\0'));
  const auto path = folder.write("lie.gz", lie);
  test::expect_error(ExitCode::kBadData, [&] { read_idx(path, 3); });
  EXPECT_LT(meter.peak().allocated_bytes, kMiB);
}

TEST(Idx, DamagedGzipIsBadDataWithTheOffset) {
  const TemporaryFolder folder;
  std::string content = images(200, 10, 10, 0);
  for (int i = 0; i < 20000; ++i) content += static_cast<char>(i * i >> 3);
  const std::string whole = zipped(content);
  for (size_t cut : {whole.size() / 2, whole.size() - 5}) {
    const auto path = folder.write("cut.gz", whole.substr(0, cut));
    test::expect_error(ExitCode::kBadData, [&] { read_idx(path, 3); });
  }
  std::string flipped = whole;
  flipped[whole.size() / 2] = static_cast<char>(flipped[whole.size() / 2] ^ 0x55);
  test::expect_error(ExitCode::kBadData, [&] { read_idx(folder.write("flip.gz", flipped), 3); });
}

TEST(Idx, AFailureToReadIsNoDamage) {
  const Error error = test::expect_error(ExitCode::kInputOutput, [] { read_idx("/proc/self/mem", 3); });
  EXPECT_TRUE(test::holds(error.what(), "Input/output error"));
}

TEST(Idx, MissingFilesAreMissing) {
  test::expect_error(ExitCode::kMissingFile, [] { read_idx("/nowhere/at-all", 3); });
  test::expect_error(ExitCode::kMissingFile, [] { read_idx("/tmp", 3); });
}

}  // namespace
}  // namespace autotrain
