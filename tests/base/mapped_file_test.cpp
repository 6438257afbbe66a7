#include "base/mapped_file.h"

#include "support/support.h"

namespace autotrain {
namespace {

TEST(MappedFile, ShowsTheBytesOfTheFileWhereverItIsMoved) {
  const test::TemporaryFolder folder;
  MappedFile file(folder.write("a", "some bytes"));
  const uint8_t* const start = file.bytes().data();
  const MappedFile moved(std::move(file));
  EXPECT_EQ(moved.bytes().data(), start);
  EXPECT_EQ(std::string(moved.bytes().begin(), moved.bytes().end()), "some bytes");
}

TEST(MappedFile, HeldInMemoryItNeedsTheFileNoMore) {
  const test::TemporaryFolder folder;
  MappedFile file(folder.write("a", "some bytes"));
  EXPECT_FALSE(file.held_in_memory());
  file.hold_in_memory();
  folder.write("a", "");
  const MappedFile moved(std::move(file));
  EXPECT_TRUE(moved.held_in_memory());
  EXPECT_EQ(std::string(moved.bytes().begin(), moved.bytes().end()), "some bytes");
}

TEST(MappedFile, AnEmptyFileHasNoBytes) {
  const test::TemporaryFolder folder;
  EXPECT_TRUE(MappedFile(folder.write("a", "")).bytes().empty());
}

TEST(MappedFile, WhatIsNoReadableFileIsMissing) {
  const test::TemporaryFolder folder;
  test::expect_error(ExitCode::kMissingFile, [&] { MappedFile(folder / "none"); });
  test::expect_error(ExitCode::kMissingFile, [&] { MappedFile file(folder.path()); });
  test::expect_error(ExitCode::kMissingFile, [] { MappedFile("/dev/null"); });
}

}  // namespace
}  // namespace autotrain
