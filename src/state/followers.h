#pragma once

#include <deque>
#include <functional>
#include <vector>

#include "autotrain/trainer.h"

namespace autotrain {

/// A follower that writes files.
class FollowingFile : public RunObserver {
 public:
  /// Hands what was written so far to the system. @throws Error(kInputOutput).
  virtual void flush() = 0;
};

/// Everyone who follows a run: its folder, its telemetry, the console, functions of the user's own. Each is
/// told everything once, in the order in which they were added.
class Followers {
 public:
  /// @param follower must outlive this object.
  void add(RunObserver& follower) { followers_.push_back(&follower); }
  void add(FollowingFile& file) {
    followers_.push_back(&file);
    files_.push_back(&file);
  }

  /// Calls one method of every follower: `tell(&RunObserver::on_event, record)`.
  template <class Method, class... Arguments>
  void tell(Method method, const Arguments&... arguments) const {
    for (RunObserver* follower : followers_) (follower->*method)(arguments...);
  }

  /// So that files say at least as much as the checkpoint that is written next. @throws Error(kInputOutput).
  void flush() const {
    for (FollowingFile* file : files_) file->flush();
  }

 private:
  std::vector<RunObserver*> followers_;
  std::vector<FollowingFile*> files_;
};

/// The functions that were given to Trainer::on_update and Trainer::on_evaluation.
class Callbacks final : public RunObserver {
 public:
  template <class Record>
  using Functions = std::deque<std::function<Flow(const Record&)>>;  // which stay where they are

  Functions<UpdateRecord> update;
  Functions<EvaluationRecord> evaluation;

  /// Whether one of them returned kStop.
  bool asked_to_stop() const { return asked_to_stop_; }

  /// Whether somebody acts between updates.
  bool follow_updates() const { return !update.empty(); }

  void on_update(const UpdateRecord& record, int64_t) override { call(update, record); }
  void on_evaluation(const EvaluationRecord& record) override { call(evaluation, record); }

 private:
  // Those that one of them adds are called from the next record on.
  template <class Record>
  void call(const Functions<Record>& callbacks, const Record& record) {
    const size_t count = callbacks.size();
    for (size_t i = 0; i < count; ++i) asked_to_stop_ |= callbacks[i](record) == Flow::kStop;
  }

  bool asked_to_stop_ = false;
};

}  // namespace autotrain
