#include "base/file_lock.h"

#include <unistd.h>

#include <memory>

#include "base/child.h"
#include "base/pipe.h"
#include "support/support.h"

namespace autotrain {
namespace {

using test::TemporaryFolder;

FileLock lock_of(const TemporaryFolder& folder, FileLock::AtEnd at_end) {
  return {folder / "lock", "here", "a run", at_end};
}

TEST(FileLock, AProcessThatWasStartedUnderItDoesNotHoldIt) {
  const TemporaryFolder folder;
  Pipe pipe;
  auto held = std::make_unique<FileLock>(folder / "lock", "here", "a run", FileLock::AtEnd::kKeep);
  test::expect_error(ExitCode::kUsage, [&] { lock_of(folder, FileLock::AtEnd::kKeep); });
  Child child([&] {
    pipe.write("begun\n");
    return ::pause();  // until it is killed
  });
  test::wait_until([&] { return pipe.read_line(1000) == "begun"; });
  held.reset();
  EXPECT_NO_THROW(lock_of(folder, FileLock::AtEnd::kKeep));
}

TEST(FileLock, WhatSuchAProcessDestroysIsNotTheLock) {
  const TemporaryFolder folder;
  auto held = std::make_unique<FileLock>(folder / "lock", "here", "a run", FileLock::AtEnd::kRemove);
  Child child([&] {
    held.reset();
    return 0;
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_TRUE(std::filesystem::exists(folder / "lock"));
  test::expect_error(ExitCode::kUsage, [&] { lock_of(folder, FileLock::AtEnd::kRemove); });
  held.reset();
  EXPECT_FALSE(std::filesystem::exists(folder / "lock"));
}

}  // namespace
}  // namespace autotrain
