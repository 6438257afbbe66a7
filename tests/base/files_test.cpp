#include "base/files.h"

#include <sys/stat.h>

#include <cerrno>
#include <vector>

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

std::vector<std::string> lines_backwards(const std::filesystem::path& path, int64_t begin, int64_t end,
                                         size_t most = 100) {
  std::vector<std::string> lines;
  for_each_line_backwards(path, begin, end, [&](std::string_view line, int64_t behind) {
    lines.push_back(std::string(line) + " " + std::to_string(behind));
    return lines.size() < most;
  });
  return lines;
}

TEST(Files, LinesComeOneByOneFromEitherEnd) {
  const TemporaryFolder folder;
  const auto path = folder.write("lines", "one\n\nthree\ntorn");
  std::vector<std::string> lines;
  for_each_line(path, [&](std::string_view line) { lines.emplace_back(line); });
  EXPECT_EQ(lines, (std::vector<std::string>{"one", "", "three", "torn"}));
  const int64_t all = 100;
  EXPECT_EQ(lines_backwards(path, 0, all), (std::vector<std::string>{"three 11", " 5", "one 4"}));
  EXPECT_EQ(lines_backwards(path, 0, all, 1), (std::vector<std::string>{"three 11"}));
  EXPECT_EQ(lines_backwards(path, 4, 11), (std::vector<std::string>{"three 11", " 5"}));
  EXPECT_EQ(lines_backwards(path, 0, 10), (std::vector<std::string>{" 5", "one 4"}));
  EXPECT_TRUE(lines_backwards(path, 11, all).empty());
  EXPECT_TRUE(lines_backwards(folder.write("none", ""), 0, all).empty());
  EXPECT_TRUE(lines_backwards(folder.write("torn", "torn"), 0, all).empty());
}

TEST(Files, LinesMayBeLongerThanWhatIsReadAtOnce) {
  const TemporaryFolder folder;
  std::string content;
  std::vector<std::string> expected;
  for (const size_t length : {0, 1, 65535, 65536, 65537, 200000, 3}) {
    expected.push_back(std::string(length, 'x'));
    content += expected.back() + "\n";
  }
  const auto path = folder.write("lines", content);
  std::vector<std::string> lines, backwards;
  for_each_line(path, [&](std::string_view line) { lines.emplace_back(line); });
  EXPECT_EQ(lines, expected);
  for_each_line_backwards(path, 0, std::ssize(content), [&](std::string_view line, int64_t) {
    backwards.emplace_back(line);
    return true;
  });
  EXPECT_EQ(backwards, std::vector<std::string>(expected.rbegin(), expected.rend()));
}

// The system's own example of a file whose first byte cannot be read.
constexpr const char* kUnreadable = "/proc/self/mem";

TEST(Files, AFailureToReadIsNoEnd) {
  const Error error = test::expect_error(ExitCode::kInputOutput, [] { read_file(kUnreadable); });
  EXPECT_TRUE(test::holds(error.what(), "reading failed: Input/output error"));
  test::expect_error(ExitCode::kInputOutput, [] { for_each_line(kUnreadable, [](std::string_view) {}); });
}

TEST(Files, TheUmaskIsNamedWhereItTakesTheUsersOwnRights) {
  const auto hint = [] {
    errno = EACCES;
    return test::expect_error(ExitCode::kInputOutput, [] { throw_io_error("x", "opening"); }).hint();
  };
  EXPECT_TRUE(test::holds(hint(), "--output"));
  const mode_t before = ::umask(0777);
  const std::string masked = hint();
  ::umask(before);
  EXPECT_TRUE(test::holds(masked, "umask"));
}

}  // namespace
}  // namespace autotrain
