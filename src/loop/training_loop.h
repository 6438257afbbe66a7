#pragma once

#include <optional>
#include <set>
#include <string>

#include "autotrain/error.h"
#include "device/device_error.h"
#include "loop/agenda.h"
#include "loop/bad_values.h"
#include "loop/divergence.h"
#include "loop/evaluation_runner.h"
#include "loop/kept_modes.h"
#include "loop/saver.h"
#include "loop/session.h"
#include "loop/unlike_state.h"
#include "loop/update_times.h"
#include "loop/window_runner.h"
#include "optim/plateau.h"
#include "optim/schedule.h"
#include "setup/horizon.h"

namespace autotrain {

/// The loop of one session: windows, evaluations and checkpoints until a stop is reached.
///
/// The figures of an update are read when the next window's backward passes are queued, so that a GPU never
/// waits for the host, or earlier when something depends on them: at once where a callback or the task acts
/// between updates.
class TrainingLoop {
 public:
  /// @param callbacks asked after every update and evaluation whether to stop; also among the followers.
  /// @param saved     the state stands in a checkpoint: the run was resumed from it.
  TrainingLoop(Session& session, const Callbacks& callbacks, bool saved);

  /// Runs to the end. @return why it stopped.
  /// @throws Error(kDiverged), Error(kDoesNotFit), and whatever data, devices and disks throw. Unless the run
  /// diverged or lost its device, what it had learned up to its last whole update is saved first.
  StopReason run();

 private:
  void run_to_the_end();
  void tell_nothing_left() const;
  void train_window();
  int64_t effective() const;
  int64_t effective_at(int64_t learned) const;
  void note_stage();
  std::optional<WindowRunner::Application> decide_update();

  void read_queued_update();
  void record_applied(const UpdateOutcome& outcome, const UpdateTimes::Spent& spent);
  std::optional<GradientNoise> take_noise(const WindowNorms& norms, int64_t stride, NoiseBlocks& blocks);
  bool somebody_acts() const;
  bool goes_by_number() const;
  void after_step();
  void look_at_states();
  UpdateInfo info_of(int64_t update, int64_t cursor) const;
  void keep_modes();
  void tell_last_update();
  void record_skipped(const UpdateOutcome& outcome);
  void record_uncounted();
  std::string why_skipped(const UpdateOutcome& outcome);
  void note_bad_samples();

  void do_what_is_due();
  bool evaluate();
  void follow(const EvaluationRecord& evaluation);
  void tell_undefined(const EvaluationRecord& evaluation);
  void tell_never_defined() const;
  void adapt_batch();
  void checkpoint(Saver::Training training);
  void roll_back();
  void leave_what_a_resume_replaced();
  bool may_keep_to_itself() const;
  std::optional<double> loss_ahead();
  void compare_loss_ahead();
  Ranks::Note newest_checkpoint() const;

  void stop(StopReason reason);
  void stop_if_asked();
  void stop_at_limits();
  bool stopping() const { return stopped_by_ != StopReason::kNone; }
  DeviceLost leave_without_device(const DeviceLost& error, bool may_wait);
  Error with_rescue(const Error& error);
  bool may_save() const;
  std::string rescue();

  Session& session_;
  const Callbacks& callbacks_;
  const Recipe& recipe_;
  Workbench& bench_;
  Position& position_;
  Totals& totals_;
  const BatchStages& stages_;
  const Horizon horizon_;
  const Schedule schedule_;
  const std::optional<Plateau> plateau_;
  Agenda agenda_;
  UpdateTimes times_;
  Saver saver_;
  WindowRunner windows_;
  EvaluationRunner evaluations_;
  QueuedUpdate queued_;
  std::optional<UpdateOutcome> roll_back_for_;
  BadValues bad_values_;
  std::set<std::string> told_undefined_;  // figures
  UnlikeState unlike_state_;
  KeptModes modes_;
  bool told_last_update_ = false;  // the task's begin_update was last called for what the weights are of
  bool torn_ = false;              // tensors and state are of different updates
  StopReason stopped_by_ = StopReason::kNone;
};

}  // namespace autotrain
