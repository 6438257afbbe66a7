#include "base/files.h"

#include "support/support.h"

namespace autotrain {
namespace {

using test::TemporaryFolder;

TEST(Files, AtomicWriteReplacesTheWholeContent) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "a", "first, and long");
  write_file_atomically(folder / "a", "second");
  EXPECT_EQ(test::slurp(folder / "a"), "second");
  EXPECT_FALSE(std::filesystem::exists(folder / "a.tmp"));
}

TEST(Files, MissingFilesAndFoldersSayWhich) {
  const TemporaryFolder folder;
  const Error missing = test::expect_error(ExitCode::kMissingFile, [&] { read_file(folder / "nothing"); });
  EXPECT_TRUE(test::holds(missing.what(), "nothing: no such file"));
  const Error is_folder = test::expect_error(ExitCode::kMissingFile, [&] { read_file(folder.path()); });
  EXPECT_TRUE(test::holds(is_folder.what(), "is a folder"));
}

TEST(Files, TooLargeAFileIsRefused) {
  const TemporaryFolder folder;
  folder.write("large", std::string(200000, 'x'));
  test::expect_error(ExitCode::kBadData, [&] { read_file(folder / "large", 1000); });
}

TEST(Files, WritingWhereNobodyMayIsAnInputOutputError) {
  const Error error = test::expect_error(ExitCode::kInputOutput,
                                         [] { write_file_atomically("/proc/autotrain-cannot/file", "x"); });
  EXPECT_TRUE(test::holds(error.what(), "/proc/autotrain-cannot/file"));
  test::expect_error(ExitCode::kInputOutput, [] { make_folders("/proc/autotrain-cannot"); });
}

TEST(Files, FullDiskIsAnInputOutputErrorWithAHint) {
  OutputFile full("/dev/full", OutputFile::Mode::kAppend);
  const Error error = test::expect_error(ExitCode::kInputOutput, [&] { full.write("x"); });
  EXPECT_TRUE(test::holds(error.what(), "free some space"));
}

// LibTorch exports a std::filesystem of another compiler; whoever calls that one crashes here.
TEST(Files, RemovingATreeUsesOneFilesystemLibrary) {
  const TemporaryFolder folder;
  folder.write("tree/a/b", "1");
  folder.write("tree/c", "2");
  std::error_code error;
  EXPECT_EQ(std::filesystem::remove_all(folder / "tree", error), 4u);
  EXPECT_FALSE(std::filesystem::exists(folder / "tree"));
}

}  // namespace
}  // namespace autotrain
