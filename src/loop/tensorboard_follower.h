#pragma once

#include <filesystem>
#include <memory>

#include "report/tensorboard_file.h"
#include "state/followers.h"

namespace autotrain {

/// Follows a run with event files for TensorBoard. A file that cannot be written is a warning: no result of
/// the run depends on it.
class TensorBoardFollower final : public FollowingFile {
 public:
  /// @param folder of the run. @param update what earlier files say of updates beyond it is void.
  TensorBoardFollower(const std::filesystem::path& folder, int64_t update);
  ~TensorBoardFollower() override { TensorBoardFollower::flush(); }
  TensorBoardFollower(const TensorBoardFollower&) = delete;
  TensorBoardFollower& operator=(const TensorBoardFollower&) = delete;

  void on_update(const UpdateRecord& record, int64_t) override;
  void on_evaluation(const EvaluationRecord& record) override;
  void on_event(const EventRecord& record) override;
  void flush() override;

 private:
  template <class Action>
  void attempt(Action action);

  std::unique_ptr<TensorBoardFile> file_;  // null: writing it failed
};

}  // namespace autotrain
