#pragma once

#include <memory>
#include <optional>
#include <string>

#include "checkpoint/writer.h"
#include "device/host_copies.h"
#include "loop/session.h"

namespace autotrain {

/// Saves what a run has learned: in the background, at its end, and when it ends by an error. Without a run
/// folder it writes nothing. With several ranks all make the same calls, but for `rescue`.
class Saver {
 public:
  /// @param saved the state stands in a checkpoint: the run was resumed from it.
  Saver(Session& session, bool saved);

  /// Whether training goes on while a checkpoint is written, where a copy of the state has room.
  enum class Training { kGoesOn, kWaits };

  /// Writes one of the state as it is. @throws Error(kInputOutput), of this one or the one before.
  void checkpoint(Training training);

  /// The same, unless the newest checkpoint holds this state already.
  void checkpoint_if_changed();

  /// The state is another one than when it was last saved.
  void mark_changed() { saved_ = false; }

  /// Until nothing is under way. @throws Error(kInputOutput) of the checkpoint that was.
  void wait();

  /// The same when the device is lost, which whoever writes may wait for: not for ever.
  void finish_writing();

  /// Without waiting. @throws Error(kInputOutput) of the checkpoint that was under way.
  void notice_failure();

  /// Saves the state of a run that fails, in the run folder or else in `checkpoint.fallback`; on another rank
  /// than the first, in the place of that one.
  /// @return what is saved where, as words for an error's text; "" when it was not possible.
  std::string rescue();

  /// Whether `rescue` had something to save, and no disk took it.
  bool could_not_write() const { return could_not_write_; }

 private:
  void write(Training training);
  CheckpointContent content(int64_t metrics_bytes);
  CheckpointContent content() { return content(session_.folder->metrics().bytes()); }
  // What is written while training goes on.
  struct Background {
    TensorLists tensors;
    std::shared_ptr<HostCopies> copies;  // that they are
  };
  std::optional<Background> background_copy(const TensorLists& live) const;
  bool copies_fit(int64_t bytes) const;
  std::string save_here();
  std::string save_elsewhere();
  std::string save_as_deputy();
  std::string saved_in(const std::string& where) const;

  Session& session_;
  const Recipe& recipe_;
  RunState& state_;
  std::unique_ptr<CheckpointWriter> writer_;  // null: nothing is written
  bool saved_;                                // the newest checkpoint holds the state as it is
  bool could_not_write_ = false;
};

}  // namespace autotrain
