#include "base/full_disk.h"

#include <atomic>
#include <cerrno>

#include "base/file_layer.h"
#include "base/files.h"
#include "base/interrupt.h"
#include "support/support.h"

namespace autotrain {
namespace {

using test::TemporaryFolder;

constexpr double kLong = 1e6;  // seconds

// Takes a byte of each write, and then is full for so many of them.
class FullForAWhile final : public FileLayer {
 public:
  FullForAWhile(int error, int times) : error_(error), left_(times) {}

  ssize_t write(int descriptor, const void* bytes, size_t) override {
    if (written_++ == 1 && left_ > 0) return --left_, --written_, errno = error_, -1;
    return FileLayer::write(descriptor, bytes, 1);
  }

  bool has_room() const { return left_ == 0; }

 private:
  const int error_;
  int left_;
  int written_ = 0;
};

std::string written_through(FileLayer& layer, const TemporaryFolder& folder) {
  const FileLayerScope scope(layer);
  write_file(folder / "file", "content");
  return test::slurp(folder / "file");
}

TEST(FullDisk, WritersWaitForRoomAndGoOnWhereTheyWere) {
  const TemporaryFolder folder;
  const FullDiskScope waiting(kLong);
  for (const int error : {ENOSPC, EDQUOT}) {
    FullForAWhile disk(error, 2);
    EXPECT_EQ(written_through(disk, folder), "content");
    EXPECT_TRUE(disk.has_room());
  }
}

TEST(FullDisk, NobodyWaitsWithoutAScopeOrForAnotherError) {
  const TemporaryFolder folder;
  FullForAWhile full(ENOSPC, 1);
  const Error error = test::expect_error(ExitCode::kInputOutput, [&] { written_through(full, folder); });
  EXPECT_TRUE(test::holds(error.what(), "No space left"));
  const FullDiskScope waiting(kLong);
  FullForAWhile broken(EIO, 1);
  test::expect_error(ExitCode::kInputOutput, [&] { written_through(broken, folder); });
}

TEST(FullDisk, WaitingEndsWithAnErrorWhenItsTimeIsUp) {
  const TemporaryFolder folder;
  const FullDiskScope waiting(0.01);
  FullForAWhile disk(ENOSPC, 1 << 30);
  test::expect_error(ExitCode::kInputOutput, [&] { written_through(disk, folder); });
}

TEST(FullDisk, AStopThatIsAskedForEndsTheWaiting) {
  const TemporaryFolder folder;
  const FullDiskScope waiting(kLong);
  FullForAWhile disk(ENOSPC, 1 << 30);
  request_interrupt(Interrupt::kStop);
  test::expect_error(ExitCode::kInputOutput, [&] { written_through(disk, folder); });
  clear_interrupt();
}

TEST(FullDisk, APartThatWasWrittenIsTakenBackWhenTheWaitingEnds) {
  const TemporaryFolder folder;
  write_file(folder / "rows", "first\n");
  {
    FullForAWhile disk(ENOSPC, 1 << 30);
    const FileLayerScope scope(disk);
    OutputFile file(folder / "rows", OutputFile::Mode::kAppend);
    test::expect_error(ExitCode::kInputOutput, [&] { file.write("second\n"); });
  }
  EXPECT_EQ(test::slurp(folder / "rows"), "first\n");
}

// What was written before is of no use where a file could not be synced.
TEST(FullDisk, WorkThatFailsIsDoneAgainFromItsStart) {
  const FullDiskScope waiting(kLong);
  int times = 0;
  waiting_for_room([&] {
    if (++times < 3) throw NoRoom(ExitCode::kInputOutput, "folder", "syncing failed");
  });
  EXPECT_EQ(times, 3);
}

}  // namespace
}  // namespace autotrain
