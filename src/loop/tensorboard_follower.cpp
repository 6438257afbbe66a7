#include "loop/tensorboard_follower.h"

#include "autotrain/log.h"
#include "base/files.h"
#include "base/text.h"

namespace autotrain {

TensorBoardFollower::TensorBoardFollower(const std::filesystem::path& folder, int64_t update) {
  attempt([&] {
    make_folders(folder / "tensorboard");
    file_ = std::make_unique<TensorBoardFile>(folder / "tensorboard", update);
  });
}

template <class Action>
void TensorBoardFollower::attempt(Action action) {
  try {
    action();
  } catch (const std::exception& error) {
    log::warn("report", cat("no more is written for TensorBoard: ", error.what()));
    file_.reset();
  }
}

void TensorBoardFollower::on_update(const UpdateRecord& record, int64_t) {
  if (file_) attempt([&] { file_->write(record); });
}

void TensorBoardFollower::on_evaluation(const EvaluationRecord& record) {
  if (file_) attempt([&] { file_->write(record); });
}

void TensorBoardFollower::on_event(const EventRecord& record) {
  if (file_ && record.event == EventKind::kRollback) attempt([&] { file_->restart(record.update); });
}

void TensorBoardFollower::flush() {
  if (file_) attempt([&] { file_->flush(); });
}

}  // namespace autotrain
