#include "data/datasets.h"
#include "support/samples.h"
#include "support/support.h"

namespace autotrain {
namespace {

using test::TemporaryFolder;

Choice text(std::vector<std::string> files, int64_t context, std::map<std::string, Value> more = {}) {
  more["files"] = std::move(files);
  more["context"] = context;
  return {"text", std::move(more)};
}

std::string bytes(const torch::Tensor& row) {
  std::string out;
  for (int64_t i = 0; i < row.numel(); ++i) out += static_cast<char>(row[i].item<int64_t>());
  return out;
}

TEST(Text, AFileWhoseEndCannotBeFoundIsNotEmpty) {
  const TemporaryFolder folder;
  std::filesystem::create_symlink("/proc/self/mem", folder / "1.txt");
  test::expect_error(ExitCode::kInputOutput, [&] { make_dataset({text({(folder / "*.txt").string()}, 4)}); });
}

TEST(Text, WindowsSpanFilesAndTargetsAreOneByteLater) {
  const TemporaryFolder folder;
  folder.write("1.txt", "abcd");
  folder.write("2.txt", "");
  folder.write("3.txt", "efghij");
  const auto data = make_dataset({text({(folder / "*.txt").string()}, 4, {{"stride", int64_t{2}}})});
  ASSERT_EQ(data->size(), 3);
  const Batch batch = test::samples(*data, {0, 1, 2});
  EXPECT_EQ(bytes(batch.inputs[0]), "abcd");
  EXPECT_EQ(bytes(batch.targets[0]), "bcde");
  EXPECT_EQ(bytes(batch.inputs[1]), "cdef");
  EXPECT_EQ(bytes(batch.targets[2]), "fghi");
}

TEST(Text, SplitsShareNoByteOfTheirTargets) {
  const TemporaryFolder folder;
  folder.write("a", std::string(900, 'x') + std::string(100, 'y'));
  const auto path = (folder / "a").string();
  const auto train = make_dataset({text({path}, 10, {{"split", std::string("train")}})});
  const auto validation = make_dataset({text({path}, 10, {{"split", std::string("validation")}})});
  for (int64_t i = 0; i < train->size(); ++i)
    EXPECT_EQ(bytes(test::samples(*train, {i}).targets[0]), std::string(10, 'x'));
  for (int64_t i = 0; i < validation->size(); ++i) {
    EXPECT_EQ(bytes(test::samples(*validation, {i}).targets[0]), std::string(10, 'y'));
  }
}

TEST(Text, WhatCannotBeReadSaysWhy) {
  const TemporaryFolder folder;
  folder.write("short", "abc");
  test::expect_error(ExitCode::kMissingFile,
                     [&] { make_dataset({text({(folder / "*.none").string()}, 4)}); });
  test::expect_error(ExitCode::kBadData, [&] { make_dataset({text({(folder / "short").string()}, 4)}); });
  test::expect_error(ExitCode::kBadRecipe, [&] { make_dataset({text({}, 4)}); });
}

TEST(Text, AFileThatShrinksIsBadDataAndNoCrash) {
  const TemporaryFolder folder;
  folder.write("a", std::string(10000, 'x'));
  const auto data = make_dataset({text({(folder / "a").string()}, 100)});
  std::filesystem::resize_file(folder / "a", 10);
  const auto error = test::expect_error(ExitCode::kBadData, [&] { test::samples(*data, {50}); });
  EXPECT_TRUE(test::holds(error.what(), "became shorter"));
}

}  // namespace
}  // namespace autotrain
