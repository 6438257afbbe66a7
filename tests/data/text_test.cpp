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

TEST(Text, AFileThatIsNamedTwiceIsReadOnce) {
  const TemporaryFolder folder;
  const std::string first = folder.write("1.txt", "abcde").string();
  folder.write("2.txt", "fghij");
  std::filesystem::create_symlink("1.txt", folder / "3.txt");
  const Choice choice = text({first, (folder / "*.txt").string(), first}, 9);
  const auto data = make_dataset({choice});
  EXPECT_EQ(data->size(), 1);
  EXPECT_EQ(bytes(test::samples(*data, {0}).targets[0]), "bcdefghij");
  const auto doubts = [](const DatasetPlace& place, const Dataset& own, const Dataset* training) {
    return look_at(place, own, training, {.depth = LookDepth::kStart}).doubts;
  };
  ASSERT_EQ(doubts({choice}, *data, nullptr).size(), 1);
  const Doubt doubt = doubts({choice}, *data, nullptr)[0];
  EXPECT_TRUE(doubt.kind.starts_with("files that are named more than once"));
  EXPECT_EQ(doubt.count, 3) << "by the pattern, by the link and by its name";
  EXPECT_EQ(doubt.places[0], first);
  // Parts of the same files, however each names them.
  const Choice train = text({(folder / "[12].txt").string()}, 2,
                            {{"split", std::string("train")}, {"validation_share", 0.5}}),
               validation = text({first, (folder / "2.txt").string()}, 2,
                                 {{"split", std::string("validation")}, {"validation_share", 0.5}});
  const auto trained_on = make_dataset({train});
  EXPECT_TRUE(
      doubts({.choice = validation, .training = &train}, *make_dataset({validation}), trained_on.get())
          .empty());
}

TEST(Text, AFileIsFoundByItsNameThoughThatIsAPatternToo) {
  const TemporaryFolder folder;
  for (const char* const name : {"a[1].txt", "a{1,2}.txt"}) {
    const std::string path = folder.write(name, "abcde").string();
    EXPECT_EQ(make_dataset({text({path}, 4)})->size(), 1) << name;
  }
}

TEST(Text, AFolderIsNoFileAndIsTold) {
  const TemporaryFolder folder;
  folder.write("texts/1.txt", "abcde");
  for (const char* const name : {"texts", "texts/", "tex*"}) {
    const Error error = test::expect_error(ExitCode::kMissingFile,
                                           [&] { make_dataset({text({(folder / name).string()}, 4)}); });
    EXPECT_TRUE(test::holds(error.problem(), "is a folder")) << name;
    EXPECT_TRUE(test::holds(error.hint(), "/*")) << name;
  }
  EXPECT_EQ(make_dataset({text({(folder / "texts" / "*").string()}, 4)})->size(), 1);
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
