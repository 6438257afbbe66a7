#include "report/metrics_file.h"

#include <cerrno>
#include <cmath>
#include <fstream>

#include "base/file_layer.h"
#include "report/table.h"
#include "support/support.h"

namespace autotrain {
namespace {

using test::TemporaryFolder;

void write_updates(const std::filesystem::path& path, int64_t from, int64_t to,
                   std::optional<int64_t> keep = {}) {
  MetricsFile file(path, keep);
  for (int64_t update = from; update <= to; ++update) file.write(UpdateRecord{.update = update, .loss = 1.0});
}

TEST(MetricsFile, AppendsOneObjectALine) {
  const TemporaryFolder folder;
  write_updates(folder / "m", 1, 3);
  MetricsFile(folder / "m", {})
      .write(EvaluationRecord{.update = 3, .split = "validation", .figures = {{"loss", NAN}}});
  const auto rows = read_metrics(folder / "m");
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[2].at("update"), 3);
  EXPECT_TRUE(rows[3].at("loss").is_null()) << "a non-finite number is null, never a made-up one";
}

TEST(MetricsFile, ATornLastLineIsLeftOutAndRowsBeyondTheCheckpointAreCut) {
  const TemporaryFolder folder;
  write_updates(folder / "m", 1, 3);
  const auto bytes = static_cast<int64_t>(std::filesystem::file_size(folder / "m"));
  write_updates(folder / "m", 4, 5);
  std::ofstream(folder / "m", std::ios::app) << "{\"kind\":\"update\",\"upd";
  EXPECT_EQ(read_metrics(folder / "m").size(), 5u);
  write_updates(folder / "m", 4, 6, bytes);
  const auto rows = read_metrics(folder / "m");
  ASSERT_EQ(rows.size(), 6u);
  for (size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(rows[i].at("update"), i + 1);
}

TEST(MetricsFile, ATornLineIsRepairedWhenTheFileIsShorterThanTheCheckpointSays) {
  const TemporaryFolder folder;
  write_updates(folder / "m", 1, 2);
  const auto whole = std::filesystem::file_size(folder / "m");
  std::filesystem::resize_file(folder / "m", whole - 4);  // as a power cut may leave it
  write_updates(folder / "m", 2, 2, static_cast<int64_t>(whole));
  EXPECT_EQ(std::filesystem::file_size(folder / "m"), whole);
  EXPECT_EQ(read_metrics(folder / "m").size(), 2u);
}

// As a long run leaves it: more than is read at once anywhere. Only the lines' ends are looked at.
TEST(MetricsFile, ALargeFileIsCutInPlace) {
  const TemporaryFolder folder;
  write_updates(folder / "m", 1, 3);
  const auto kept = static_cast<int64_t>(std::filesystem::file_size(folder / "m"));
  std::filesystem::create_hard_link(folder / "m", folder / "same");
  std::filesystem::resize_file(folder / "m", uintmax_t{3} << 30);  // a hole, which takes no room
  write_updates(folder / "m", 4, 4, kept);
  EXPECT_EQ(read_metrics(folder / "m").size(), 4u);
  EXPECT_TRUE(std::filesystem::equivalent(folder / "m", folder / "same")) << "it was written anew";
}

TEST(MetricsFile, ACutThatFailsLeavesTheFileAsItWas) {
  class NoCuts final : public FileLayer {
    int truncate(int, off_t) override { return errno = EIO, -1; }
  } disk;
  const TemporaryFolder folder;
  write_updates(folder / "m", 1, 3);
  const std::string before = test::slurp(folder / "m");
  {
    const FileLayerScope scope(disk);
    test::expect_error(ExitCode::kInputOutput, [&] { write_updates(folder / "m", 2, 2, 100); });
  }
  EXPECT_EQ(test::slurp(folder / "m"), before);
}

TEST(MetricsFile, TakesBytesThatAreNoUtf8) {
  const TemporaryFolder folder;
  MetricsFile(folder / "m", {}).write(EventRecord{.detail = "photo\xff.jpg is skipped"});
  EXPECT_TRUE(test::holds(read_metrics(folder / "m").at(0).at("detail"), ".jpg is skipped"));
}

TEST(MetricsFile, AFailureToReadIsNoEnd) {
  class BrokenDisk final : public FileLayer {
    ssize_t read(int, void*, size_t) override { return errno = EIO, -1; }
  } disk;
  const TemporaryFolder folder;
  write_updates(folder / "m", 1, 3);
  const FileLayerScope scope(disk);
  test::expect_error(ExitCode::kInputOutput, [&] { read_metrics(folder / "m"); });
}

TEST(MetricsFile, KnowsItsLength) {
  const TemporaryFolder folder;
  write_updates(folder / "m", 1, 2);
  MetricsFile file(folder / "m", {});
  file.write(UpdateRecord{.update = 3});
  const int64_t told = file.bytes();
  file.flush();
  EXPECT_EQ(static_cast<int64_t>(std::filesystem::file_size(folder / "m")), told);
}

TEST(TextTable, AlignsNumbersRightAndWordsLeftByCharacters) {
  TextTable table({"name", "value"});
  table.add_row({"größe", "5"});
  table.add_row({"b", "1000"});
  EXPECT_EQ(table.text(), "name   value\ngröße      5\nb       1000\n");
}

}  // namespace
}  // namespace autotrain
