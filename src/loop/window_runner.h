#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "data/loading_rates.h"
#include "data/worker_tuner.h"
#include "loop/out_of_memory.h"
#include "loop/saver.h"
#include "loop/session.h"
#include "loop/update_times.h"

namespace autotrain {

/// An update that was queued, and whose figures were not read yet.
struct QueuedUpdate {
  PendingUpdate figures;
  double lr = 0;
  int64_t first = 0;  ///< position of its window in the stream
  int64_t samples = 0;
  Timeline::Stretch stretch = {};  ///< since the update before it
  RankTimes ranks = {};
  NoiseStrides noise_strides = {};    ///< of the windows that this one stands for, where it was measured
  std::string first_non_finite = {};  ///< parameter; "" where nobody asked, or all gradients are finite
  std::string first_buffer = {};      ///< likewise of buffers
};

/// Forward and backward passes of this rank's part of a window, in the micro-batches that `cut` makes of it.
/// @param loader gives the window's pieces next. @param window number of the window in the run.
/// @return false when a signal stopped it in the middle.
bool accumulate_window(Workbench& bench, Loader& loader, const WindowCut& cut, int64_t window);

/// Runs windows: the samples of one update, forward and backward in micro-batches, then the update. A window
/// is a transaction: when memory runs out it is dropped, and its samples are run again.
class WindowRunner {
 public:
  /// How a window's gradient is applied.
  struct Application {
    double lr = 0;
    bool name_non_finite = false;  ///< look for the first gradient that is not finite; waits for the device
  };

  /// Asked when all backward passes of a window are queued. Nothing: the window is dropped.
  using Decide = std::function<std::optional<Application>()>;

  WindowRunner(Session& session, Saver& saver, const UpdateTimes& times);

  enum class End {
    kQueued,   ///< its update, to be applied or skipped
    kDropped,  ///< as `decide` said
    kStopped,  ///< by a signal, or because another rank stops
  };

  /// Runs the next window of the stream. One that was dropped or stopped has left no trace. All ranks do the
  /// same: when memory runs out on one, all drop the window and run it again, and all stop at the same one.
  /// @param queued where its update is put; read before, for `decide` comes first.
  /// @throws Error(kDoesNotFit) when memory runs out at every size; whatever data and devices throw.
  End run(int64_t samples, const Decide& decide, QueuedUpdate& queued);

  /// Begins at the state's place in the stream again, with the plan's micro-batch.
  void restart();

  /// A rank may come late to the next window: one of them writes, or evaluates more than the others.
  void expect_delay() { delayed_ = true; }

  /// Why the last window was stopped.
  StopReason stopped_by() const { return stopped_by_; }

  /// The loss of the first micro-batch of the next window, which leaves no trace but in what the task keeps
  /// to itself. Ends loading; `restart` comes next.
  /// @param info of that window's update.
  double first_loss(int64_t samples, const UpdateInfo& info);

  /// Tells the task of an update, as that one's window does. Of what it changes, only what it keeps to itself
  /// stays.
  void tell(const UpdateInfo& info);

  /// Ends loading. Another window may follow after `restart` only.
  void close() { loader_.reset(); }

  /// Takes what an update took into account for the number of loader threads. Which threads load changes no
  /// sample, so a run may try.
  void tune_loader(int64_t samples, double seconds, double waited);

 private:
  enum class Attempt { kDone, kStopped, kAgain };
  Attempt attempt(int64_t samples, const std::function<bool()>& part);
  WindowCut cut_of(int64_t samples) const { return {samples, micro_batch_, bench_.lanes}; }
  bool accumulate(int64_t samples);
  void set_statistics(const WindowCut& cut);
  bool accumulate_together(int64_t samples);
  double patience() const;
  void queue_update(int64_t samples, const Application& how, QueuedUpdate& queued);
  void tell_why_not_recorded();
  void stop_recording();
  void prepare_another_attempt(const std::exception& error, int64_t samples);
  void keep_or_restore_micro_batch();
  void adopt_micro_batch(int64_t micro_batch);
  int64_t smaller_micro_batch(int64_t samples) const;
  std::string layer_out_of_memory(int64_t samples);
  void open_loader(int64_t window_samples);
  void call_begin_update(const UpdateInfo& info);

  Session& session_;
  Saver& saver_;
  const UpdateTimes& times_;
  BatchPlan& plan_;
  Workbench& bench_;
  RunState& state_;
  WorkerTuner tuner_;
  LoadTimes load_times_;
  std::unique_ptr<Loader> loader_;
  int64_t loader_window_ = 0;  // samples of the windows that it cuts
  int64_t micro_batch_;        // of the window under way
  const bool measures_noise_;
  NoiseStrides noise_strides_;  // at the window under way
  Attempts attempts_;           // at the window under way
  double slowest_ = 0;   // seconds that the passes of a window took on any rank, from the second window on
  int64_t windows_ = 0;  // run so far
  bool delayed_ = false;
  bool told_why_not_recorded_ = false;
  StopReason stopped_by_ = StopReason::kNone;
};

}  // namespace autotrain
