#include "loop/disk_space.h"

#include "autotrain/log.h"
#include "base/file_layer.h"
#include "support/support.h"

namespace autotrain {
namespace {

using test::TemporaryFolder;

class Disk final : public FileLayer {
 public:
  explicit Disk(int64_t free) : free_(free) {}
  int64_t free_bytes(const char*) override { return free_; }

 private:
  int64_t free_;
};

// What is said of a disk with so many bytes left, for checkpoints of 1000 bytes.
std::vector<std::string> warnings_of(const CheckpointRecipe& recipe, int64_t free,
                                     const TemporaryFolder& folder) {
  Disk disk(free);
  const FileLayerScope scope(disk);
  std::vector<std::string> warnings;
  log::set_sink([&](const log::Record& record) { warnings.emplace_back(record.text); }, log::Level::kWarning);
  try {
    check_disk_space(recipe, CheckpointFolder(folder.path()), 1000);
  } catch (...) {
    log::set_sink(log::terminal_sink(), log::Level::kWarning);
    throw;
  }
  log::set_sink(log::terminal_sink(), log::Level::kWarning);
  return warnings;
}

TEST(DiskSpace, ADiskThatTakesAllThatIsKeptAndOneMoreIsFine) {
  const TemporaryFolder folder;
  const CheckpointRecipe recipe{.keep = 2};
  EXPECT_TRUE(warnings_of(recipe, 4000, folder).empty());
  EXPECT_TRUE(warnings_of(recipe, -1, folder).empty()) << "not known";
  ASSERT_EQ(warnings_of(recipe, 3999, folder).size(), 1u);
}

TEST(DiskSpace, TheWarningHasTheFigures) {
  const TemporaryFolder folder;
  const std::vector<std::string> warnings = warnings_of({.keep = 2}, 3 << 9, folder);
  ASSERT_EQ(warnings.size(), 1u);
  for (const char* const part : {"1.50 KiB left", "1000 B", "up to 4 more", "checkpoint.keep"})
    EXPECT_TRUE(test::holds(warnings[0], part));
}

TEST(DiskSpace, CheckpointsThatAreThereAlreadyAreReplaced) {
  const TemporaryFolder folder;
  for (const char* const name : {"update-1", "update-2", "update-3"})
    std::filesystem::create_directory(folder / name);
  EXPECT_TRUE(warnings_of({.keep = 2}, 1000, folder).empty());
}

TEST(DiskSpace, ARunOfWhichNotOneCheckpointFitsIsRefusedUnlessItHasAnotherPlace) {
  const TemporaryFolder folder;
  const Error error =
      test::expect_error(ExitCode::kInputOutput, [&] { warnings_of({.keep = 1}, 999, folder); });
  EXPECT_TRUE(test::holds(error.what(), "999 B left"));
  const std::string elsewhere = (folder / "elsewhere").string();
  EXPECT_EQ(warnings_of({.keep = 1, .fallback = elsewhere}, 999, folder).size(), 1u);
}

TEST(DiskSpace, AnotherPlaceThatCannotBeWrittenToIsNamedBeforeItIsNeeded) {
  const TemporaryFolder folder;
  folder.write("file", "no folder");
  for (const char* const name : {"file", "file/below"}) {
    const CheckpointRecipe recipe{.fallback = (folder / name).string()};
    const Error error =
        test::expect_error(ExitCode::kInputOutput, [&] { warnings_of(recipe, 1 << 20, folder); });
    EXPECT_EQ(error.where(), "checkpoint.fallback");
    EXPECT_TRUE(test::holds(error.problem(), (folder / name).string()));
  }
}

}  // namespace
}  // namespace autotrain
