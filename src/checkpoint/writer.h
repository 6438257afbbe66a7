#pragma once

#include <functional>
#include <future>

#include "base/small_thread.h"
#include "checkpoint/checkpoint.h"

namespace autotrain {

/// Writes the checkpoints of one run, one at a time, in the calling thread or in one of its own.
class CheckpointWriter {
 public:
  explicit CheckpointWriter(CheckpointFolder& folder) : folder_(folder) {}

  /// Waits until what is under way is on disk; errors of it are lost: call `wait` before.
  ~CheckpointWriter() = default;
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  /// Waits for the one under way, then writes this one. @throws Error(kInputOutput), of either.
  void write(int64_t update, const CheckpointContent& content, const Retention& retention);

  /// Waits for the one under way, then starts writing this one and returns. `content` must share no memory
  /// with tensors that change.
  /// @param arrive waits, in the writer's thread, until the content's tensors hold what is written, and is
  /// destroyed when that is done. What it throws is what this checkpoint failed of.
  /// @throws Error(kInputOutput) of the one before.
  void start(int64_t update, CheckpointContent content, Retention retention,
             std::function<void()> arrive = {});

  /// Without waiting. @throws Error(kInputOutput) of the one that was under way.
  void notice_failure();

  /// Until nothing is under way. @throws Error(kInputOutput) of the one that was.
  void wait();

  /// The same, for no longer than so many seconds: where the process ends afterwards.
  void wait_at_most(double seconds);

 private:
  CheckpointFolder& folder_;
  std::future<void> under_way_;
  SmallThread thread_;
};

}  // namespace autotrain
