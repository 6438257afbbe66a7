#include "checkpoint/checkpoint.h"

#include <fstream>

#include "support/support.h"

namespace autotrain {
namespace {

using test::TemporaryFolder;

CheckpointContent content(double value) {
  return {{{"w", torch::full({100}, value)}}, {{"m", torch::zeros({10})}}, {{"run", value}}};
}

TEST(Checkpoint, TheNewestWholeOneIsRead) {
  const TemporaryFolder folder;
  CheckpointFolder checkpoints(folder / "c");
  EXPECT_FALSE(checkpoints.read_newest());
  for (const int64_t update : {1, 2, 10}) checkpoints.write(update, content(static_cast<double>(update)));
  const auto newest = checkpoints.read_newest();
  ASSERT_TRUE(newest);
  EXPECT_EQ(newest->first, 10);
  EXPECT_EQ(newest->second.model[0].tensor[0].item<double>(), 10);
  EXPECT_EQ(newest->second.state.at("run"), 10);
}

TEST(Checkpoint, EveryKindOfDamageIsRecognisedAndTheOneBeforeIsTaken) {
  for (const char* file : {"model.safetensors", "optimizer.safetensors", "state.json", "manifest.json"}) {
    for (const int damage : {0, 1, 2, 3}) {
      const TemporaryFolder folder;
      CheckpointFolder checkpoints(folder / "c");
      checkpoints.write(1, content(1));
      checkpoints.write(2, content(2));
      const auto path = checkpoints.path_of(2) / file;
      std::string bytes = test::slurp(path);
      if (damage == 0) std::filesystem::remove(path);
      if (damage == 1) std::filesystem::resize_file(path, bytes.size() / 2);
      if (damage == 2) bytes[bytes.size() - 3] = static_cast<char>(bytes[bytes.size() - 3] ^ 1);
      if (damage == 3) bytes.clear();
      if (damage >= 2) std::ofstream(path, std::ios::binary) << bytes;
      const auto newest = checkpoints.read_newest();
      ASSERT_TRUE(newest) << file << " damage " << damage;
      EXPECT_EQ(newest->first, std::string(file) == "manifest.json" && damage == 2 ? newest->first : 1)
          << file;
    }
  }
}

TEST(Checkpoint, AWriteThatFailsLeavesTheOneBefore) {
  const TemporaryFolder folder;
  CheckpointFolder checkpoints(folder / "c");
  checkpoints.write(1, content(1));
  // The folder where the next one is prepared cannot be made: a file is in its place.
  folder.write("c/.update-2.tmp/model.safetensors/x", "");
  std::filesystem::permissions(folder / "c/.update-2.tmp", std::filesystem::perms::none);
  CheckpointFolder broken("/proc/autotrain-cannot");
  test::expect_error(ExitCode::kInputOutput, [&] { broken.write(1, content(1)); });
  EXPECT_EQ(checkpoints.read_newest()->first, 1);
}

TEST(Checkpoint, PruningKeepsTheNewestAndTheBest) {
  const TemporaryFolder folder;
  CheckpointFolder checkpoints(folder / "c");
  for (int64_t update = 1; update <= 6; ++update) checkpoints.write(update, content(0));
  folder.write("c/.update-9.tmp/model.safetensors", "left over");
  checkpoints.prune(2, 3);
  EXPECT_EQ(checkpoints.updates(), (std::vector<int64_t>{3, 5, 6}));
  EXPECT_FALSE(std::filesystem::exists(folder / "c/.update-9.tmp"));
}

TEST(Checkpoint, WritingTheSameUpdateAgainReplacesIt) {
  const TemporaryFolder folder;
  CheckpointFolder checkpoints(folder / "c");
  checkpoints.write(1, content(1));
  checkpoints.write(1, content(7));
  EXPECT_EQ(checkpoints.read(1).model[0].tensor[0].item<double>(), 7);
}

}  // namespace
}  // namespace autotrain
