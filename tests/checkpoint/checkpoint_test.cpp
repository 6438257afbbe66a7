#include "checkpoint/checkpoint.h"

#include <cerrno>
#include <fstream>

#include "base/file_layer.h"
#include "checkpoint/writer.h"
#include "support/support.h"

namespace autotrain {
namespace {

using test::TemporaryFolder;

CheckpointContent content(double value) {
  return {{{{"w", torch::full({100}, value)}}, {{"m", torch::zeros({10})}}, {{"w", torch::full({3}, value)}}},
          {{"run", value}}};
}

// The first weight of a checkpoint, read into tensors of the run.
double weight_of(const CheckpointFolder& checkpoints, int64_t update) {
  const CheckpointContent live = content(-1);
  checkpoints.read_tensors(update, live.tensors);
  return live.tensors.model[0].tensor[0].item<double>();
}

TEST(Checkpoint, TheNewestWholeOneIsRead) {
  const TemporaryFolder folder;
  CheckpointFolder checkpoints(folder / "c");
  EXPECT_FALSE(checkpoints.read_newest_state());
  for (const int64_t update : {1, 2, 10}) checkpoints.write(update, content(static_cast<double>(update)));
  const auto newest = checkpoints.read_newest_state();
  ASSERT_TRUE(newest);
  EXPECT_EQ(newest->first, 10);
  EXPECT_EQ(weight_of(checkpoints, newest->first), 10);
  EXPECT_EQ(newest->second.at("run"), 10);
}

// The update that is read when a file of the newer of two checkpoints may be damaged. Damage that is not
// recognised must be harmless, as in a space of the manifest: everything is read as it was written.
int64_t update_read(const CheckpointFolder& checkpoints) {
  const auto newest = checkpoints.read_newest_state();
  if (!newest) return -1;
  const auto update = static_cast<double>(newest->first);
  const TensorLists live = content(-1).tensors;
  checkpoints.read_tensors(newest->first, live);
  EXPECT_EQ(live.model[0].tensor[0].item<double>(), update);
  EXPECT_EQ(live.averaged[0].tensor[0].item<double>(), update);
  EXPECT_EQ(newest->second.at("run"), newest->first);
  return newest->first;
}

TEST(Checkpoint, DamageAtAnyByteIsRecognisedAndTheOneBeforeIsTaken) {
  const TemporaryFolder folder;
  CheckpointFolder checkpoints(folder / "c");
  checkpoints.write(1, content(1));
  checkpoints.write(2, content(2));
  for (const char* file : {"model.safetensors", "optimizer.safetensors", "averaged.safetensors", "state.json",
                           "manifest.json"}) {
    const auto path = checkpoints.path_of(2) / file;
    const std::string whole = test::slurp(path);
    const auto damaged = [&](const std::string& bytes) {
      std::ofstream(path, std::ios::binary) << bytes;
      return update_read(checkpoints);
    };
    int64_t harmless = 0;
    for (size_t at = 0; at < whole.size(); ++at) {
      std::string flipped = whole;
      flipped[at] = static_cast<char>(flipped[at] ^ (1 << (at % 8)));
      harmless += damaged(flipped) == 2;
      harmless += damaged(whole.substr(0, at)) == 2;
    }
    EXPECT_LE(harmless, std::string(file) == "manifest.json" ? 20 : 0) << file;
    std::filesystem::remove(path);
    EXPECT_EQ(update_read(checkpoints), 1) << file << " missing";
    EXPECT_EQ(damaged(whole + "x"), 1) << file << " longer";
    EXPECT_EQ(damaged(whole), 2);
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
  EXPECT_EQ(checkpoints.read_newest_state()->first, 1);
}

// Fails the n-th call of one kind.
class FaultyFiles final : public FileLayer {
 public:
  enum class Call { kOpen, kWrite, kShortWrite, kSync, kRename };
  FaultyFiles(Call call, int64_t which, int error) : call_(call), left_(which), error_(error) {}
  bool met() const { return left_ < 0; }

  int open(const char* path, int flags) override {
    return fails(Call::kOpen) ? -1 : FileLayer::open(path, flags);
  }
  ssize_t write(int descriptor, const void* bytes, size_t count) override {
    if (fails(Call::kWrite)) return -1;
    if (!fails(Call::kShortWrite)) return FileLayer::write(descriptor, bytes, count);
    FileLayer::write(descriptor, bytes, count / 2);  // half arrives, and then the disk is full
    errno = ENOSPC;
    return -1;
  }
  int sync(int descriptor) override { return fails(Call::kSync) ? -1 : FileLayer::sync(descriptor); }
  int rename(const char* from, const char* to) override {
    return fails(Call::kRename) ? -1 : FileLayer::rename(from, to);
  }
  int exchange(const char* from, const char* to) override {
    return fails(Call::kRename) ? -1 : FileLayer::exchange(from, to);
  }

 private:
  bool fails(Call call) {
    if (call != call_ || left_ < 0) return false;
    if (left_-- > 0) return false;
    errno = error_;
    return true;
  }

  Call call_;
  int64_t left_;
  int error_;
};

// The disk fails where one file lies.
class UnreadableFile final : public FileLayer {
 public:
  explicit UnreadableFile(std::filesystem::path path) : path_(std::move(path)) {}
  ssize_t read(int descriptor, void* bytes, size_t count) override {
    const bool hit = std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(descriptor)) == path_;
    return hit ? (errno = EIO, -1) : FileLayer::read(descriptor, bytes, count);
  }

 private:
  std::filesystem::path path_;
};

TEST(Checkpoint, OneThatCannotBeReadIsNoBrokenOne) {
  const TemporaryFolder folder;
  CheckpointFolder checkpoints(folder / "c");
  for (const int64_t update : {1, 2}) checkpoints.write(update, content(static_cast<double>(update)));
  for (const char* const file : {"manifest.json", "model.safetensors", "state.json"}) {
    UnreadableFile disk(std::filesystem::canonical(checkpoints.path_of(2) / file));
    const FileLayerScope scope(disk);
    const Error error = test::expect_error(ExitCode::kInputOutput, [&] { checkpoints.read_newest_state(); });
    EXPECT_TRUE(test::holds(error.where(), file)) << "it would be passed over, and removed later";
  }
  UnreadableFile disk(std::filesystem::canonical(checkpoints.path_of(2) / "model.safetensors"));
  const FileLayerScope scope(disk);
  test::expect_error(ExitCode::kInputOutput, [&] { weight_of(checkpoints, 2); });
}

// Whatever call fails, and however: the newest checkpoint that is whole is the one before, or the new one.
TEST(Checkpoint, AnyFailingCallLeavesACheckpointThatCanBeRead) {
  using Call = FaultyFiles::Call;
  for (const bool replacing : {false, true}) {
    for (const Call call : {Call::kOpen, Call::kWrite, Call::kShortWrite, Call::kSync, Call::kRename}) {
      for (const int error : {ENOSPC, EIO, EINVAL}) {
        bool met = true;
        for (int64_t which = 0; met; ++which) {
          ASSERT_LT(which, 100);
          const TemporaryFolder folder;
          CheckpointFolder checkpoints(folder / "c");
          checkpoints.write(1, content(1));
          if (replacing) checkpoints.write(2, content(7));
          FaultyFiles faults(call, which, error);
          bool failed = false;
          {
            const FileLayerScope scope(faults);
            try {
              checkpoints.write(2, content(2));
            } catch (const Error& refused) {
              failed = true;
              EXPECT_EQ(refused.code(), ExitCode::kInputOutput);
            }
          }
          met = faults.met();
          const auto newest = checkpoints.read_newest_state();
          ASSERT_TRUE(newest);
          EXPECT_EQ(weight_of(checkpoints, newest->first), newest->second.at("run"));
          EXPECT_GE(newest->first, replacing ? 2 : 1);
          if (!failed) {
            EXPECT_EQ(weight_of(checkpoints, newest->first), 2);
          }
        }
      }
    }
  }
}

std::vector<torch::Tensor> clones(const std::vector<torch::Tensor>& tensors) {
  std::vector<torch::Tensor> copies;
  for (const torch::Tensor& tensor : tensors) copies.push_back(tensor.clone());
  return copies;
}

TEST(Checkpoint, ATiedCopyStaysTied) {
  const torch::Tensor shared = torch::ones({4});
  const TensorLists copies = copy_of({.model = {{"in", shared}, {"out", shared}}}, clones);
  EXPECT_TRUE(copies.model[0].tensor.is_same(copies.model[1].tensor));
  shared.zero_();
  EXPECT_EQ(copies.model[0].tensor.sum().item<double>(), 4);
}

TEST(CheckpointWriter, WritesInTheBackgroundOneAfterTheOtherAndLosesNothing) {
  const TemporaryFolder folder;
  CheckpointFolder checkpoints(folder / "c");
  {
    CheckpointWriter writer(checkpoints);
    for (int64_t update = 1; update <= 5; ++update) {
      CheckpointContent now = content(static_cast<double>(update));
      now.tensors = copy_of(now.tensors, clones);
      writer.start(update, std::move(now), {.keep = 2});
    }
  }
  EXPECT_EQ(checkpoints.updates(), (std::vector<int64_t>{4, 5}));
  EXPECT_EQ(weight_of(checkpoints, 5), 5);
}

TEST(CheckpointWriter, WritesWhatHasArrivedByThen) {
  const TemporaryFolder folder;
  CheckpointFolder checkpoints(folder / "c");
  CheckpointWriter writer(checkpoints);
  CheckpointContent copies = content(1);
  const torch::Tensor weight = copies.tensors.model[0].tensor;
  std::promise<void> queued;
  writer.start(1, std::move(copies), {}, [weight, began = queued.get_future().share()] {
    began.wait();
    weight.fill_(7);
  });
  queued.set_value();
  writer.wait();
  EXPECT_EQ(weight_of(checkpoints, 1), 7);
}

TEST(CheckpointWriter, ACopyThatDoesNotArriveIsWhatTheCheckpointFailedOf) {
  const TemporaryFolder folder;
  CheckpointFolder checkpoints(folder / "c");
  CheckpointWriter writer(checkpoints);
  writer.start(1, content(1), {}, [] { throw std::runtime_error("the device is lost"); });
  EXPECT_THROW(writer.wait(), std::runtime_error);
  EXPECT_TRUE(checkpoints.updates().empty());
  writer.start(2, content(2), {});
  writer.wait();
  EXPECT_EQ(weight_of(checkpoints, 2), 2);
}

TEST(CheckpointWriter, SaysWhatFailedWhenItIsWaitedFor) {
  CheckpointFolder broken("/proc/autotrain-cannot");
  CheckpointWriter writer(broken);
  writer.start(1, content(1), {});
  test::expect_error(ExitCode::kInputOutput, [&] { writer.wait(); });
}

TEST(Checkpoint, PruningKeepsTheNewestAndTheBest) {
  const TemporaryFolder folder;
  CheckpointFolder checkpoints(folder / "c");
  const auto best = [](const nlohmann::ordered_json& state) { return state.at("best").get<int64_t>(); };
  for (const auto& [update, best_by_then] : {std::pair{1, 1}, {2, 1}, {3, 3}, {4, 4}, {5, 3}, {6, 4}}) {
    CheckpointContent written = content(0);
    written.state["best"] = best_by_then;
    checkpoints.write(update, written);
  }
  folder.write("c/.update-9.tmp/model.safetensors", "left over");
  checkpoints.prune(6, {2, best});
  EXPECT_EQ(checkpoints.updates(), (std::vector<int64_t>{3, 4, 5, 6})) << "the best of 5 and that of 6";
  EXPECT_FALSE(std::filesystem::exists(folder / "c/.update-9.tmp"));
}

// A resume skipped the broken 9 and went on from 6: what it writes must stay, whatever stands beyond it.
TEST(Checkpoint, PruningNeverTakesTheOneJustWrittenForAnOldOne) {
  const TemporaryFolder folder;
  CheckpointFolder checkpoints(folder / "c");
  for (const int64_t update : {5, 6, 7, 9}) checkpoints.write(update, content(0));
  checkpoints.prune(7, {1});
  EXPECT_EQ(checkpoints.updates(), (std::vector<int64_t>{7}));
}

TEST(Checkpoint, WhatAnInterruptedReplacementLeftAsideIsPutBack) {
  const TemporaryFolder folder;
  CheckpointFolder checkpoints(folder / "c");
  checkpoints.write(3, content(3));
  std::filesystem::rename(checkpoints.path_of(3), folder / "c/.update-3.aside");
  ASSERT_TRUE(checkpoints.read_newest_state());
  EXPECT_EQ(weight_of(checkpoints, 3), 3);
}

TEST(Checkpoint, TensorsMustMatchByNameShapeAndType) {
  const TemporaryFolder folder;
  CheckpointFolder checkpoints(folder / "c");
  checkpoints.write(1, content(1));
  const auto refused = [&](TensorLists live) {
    return std::string(
        test::expect_error(ExitCode::kBadData, [&] { checkpoints.read_tensors(1, live); }).what());
  };
  const std::vector<NamedTensor> good = {{"m", torch::zeros({10})}};
  EXPECT_TRUE(test::holds(refused({{{"w", torch::zeros({99})}}, good}), "w [100] → [99]"));
  EXPECT_TRUE(
      test::holds(refused({{{"w", torch::zeros({100}, torch::kFloat64)}}, good}), "of another shape"));
  EXPECT_TRUE(test::holds(refused({{{"v", torch::zeros({100})}}, good}), "not in the file: v"));
  EXPECT_TRUE(test::holds(refused({{}, good}), "only in the file: w"));
  const torch::Tensor strided = torch::zeros({100, 2}).select(1, 0);
  checkpoints.read_tensors(1, {{{"w", strided}}, good});
  EXPECT_EQ(strided.sum().item<double>(), 100) << "also into tensors that are not contiguous";
}

TEST(Checkpoint, WritingTheSameUpdateAgainReplacesIt) {
  const TemporaryFolder folder;
  CheckpointFolder checkpoints(folder / "c");
  checkpoints.write(1, content(1));
  checkpoints.write(1, content(7));
  EXPECT_EQ(weight_of(checkpoints, 1), 7);
  EXPECT_EQ(checkpoints.read_state(1).at("run"), 7);
  EXPECT_FALSE(std::filesystem::exists(folder / "c/.update-1.tmp")) << "the replaced one is gone";
}

TEST(Checkpoint, AFolderThatCannotBeReadIsNoneWithoutCheckpoints) {
  const TemporaryFolder folder;
  EXPECT_TRUE(CheckpointFolder(folder / "none").updates().empty());
  std::ofstream(folder / "file") << "no folder";
  EXPECT_TRUE(CheckpointFolder(folder / "file").updates().empty());
  std::filesystem::create_symlink(folder / "b", folder / "a");
  std::filesystem::create_symlink(folder / "a", folder / "b");
  const CheckpointFolder unknown(folder / "a");
  const Error error = test::expect_error(ExitCode::kInputOutput, [&] { unknown.read_newest_state(); });
  EXPECT_EQ(error.where(), (folder / "a").string());
}

TEST(Checkpoint, WhenNoneIsWholeThatIsAnErrorAndNotANewStart) {
  const TemporaryFolder folder;
  CheckpointFolder checkpoints(folder / "c");
  checkpoints.write(1, content(1));
  std::filesystem::resize_file(checkpoints.path_of(1) / "model.safetensors", 10);
  test::expect_error(ExitCode::kBadData, [&] { checkpoints.read_newest_state(); });
}

}  // namespace
}  // namespace autotrain
