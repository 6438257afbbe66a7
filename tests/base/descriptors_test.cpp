#include "base/descriptors.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>

#include "base/child.h"
#include "base/files.h"
#include "base/mapped_file.h"
#include "base/pipe.h"
#include "support/support.h"

namespace autotrain {
namespace {

using test::TemporaryFolder;

void close_standard_descriptors() {
  for (int number = STDIN_FILENO; number <= STDERR_FILENO; ++number) ::close(number);
}

void limit_open_files(rlim_t most) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = most;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

// Uses up every descriptor that is left.
void open_all_that_can_be() {
  limit_open_files(64);
  while (::open("/dev/null", O_RDONLY) >= 0) {}
}

TEST(Descriptors, ClosedStandardOnesAreFilledBeforeAFileGetsTheirNumber) {
  Child child([] {
    close_standard_descriptors();
    fill_standard_descriptors();
    return ::open("/dev/null", O_RDONLY) > STDERR_FILENO && ::write(STDERR_FILENO, "x", 1) == 1 ? 0 : 1;
  });
  EXPECT_EQ(child.wait(), 0);
}

// A program that closed them and embeds this one still prints to them.
TEST(Descriptors, FilesNeverHoldWhatIsPrintedWhereStandardErrorIsClosed) {
  const TemporaryFolder folder;
  Child child([&] {
    close_standard_descriptors();
    OutputFile file(folder / "file", OutputFile::Mode::kAppend);
    const Pipe pipe;
    for (const int number : {STDOUT_FILENO, STDERR_FILENO}) {
      if (::write(number, "printed\n", 8) >= 0) return 1;
    }
    file.write("row\n");
    return 0;
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(test::slurp(folder / "file"), "row\n");
}

TEST(Descriptors, TheLimitOfOpenFilesIsRaisedAsFarAsItMay) {
  Child child([] {
    limit_open_files(16);
    raise_limit_of_open_files();
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_cur == limit.rlim_max ? 0 : 1;
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST(Descriptors, TooManyOpenFilesAreNoMissingFile) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "UBSan looks at objects through a pipe, which cannot be opened here";
#endif
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.write("file", "content");
  Child child([&] {
    open_all_that_can_be();
    for (const auto& open :
         {std::function<void()>([&] { MappedFile{file}; }), std::function<void()>([&] { read_file(file); }),
          std::function<void()>([&] { write_file(folder / "other", "content"); })}) {
      const Error error = test::expect_error(ExitCode::kInputOutput, open);
      if (error.hint().find("ulimit -n") == std::string::npos) return 1;
    }
    return testing::Test::HasFailure() ? 2 : 0;
  });
  EXPECT_EQ(child.wait(), 0);
}

}  // namespace
}  // namespace autotrain
