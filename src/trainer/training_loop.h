#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "autotrain/error.h"
#include "autotrain/trainer.h"
#include "checkpoint/writer.h"
#include "data/worker_tuner.h"
#include "optim/schedule.h"
#include "report/trace_file.h"
#include "trainer/evaluator.h"
#include "trainer/horizon.h"
#include "trainer/parts.h"
#include "trainer/run_folder.h"
#include "trainer/run_state.h"
#include "trainer/telemetry_sampler.h"

namespace autotrain {

/// The caller's functions, in the order they were added.
struct Callbacks {
  std::vector<std::function<Flow(const UpdateRecord&)>> update;
  std::vector<std::function<Flow(const EvaluationRecord&)>> evaluation;
};

/// What a loop works on. All outlive it.
struct LoopContext {
  const Recipe& recipe;
  BatchPlan& plan;  ///< changes only when recoveries made a smaller micro-batch part of it
  Parts& parts;
  RunState& state;
  const Callbacks& callbacks;
  RunFolder* folder = nullptr;            ///< null: nothing is written
  TelemetrySampler* telemetry = nullptr;  ///< null: none is taken
  bool saved = false;                     ///< the state stands in a checkpoint: it was resumed from it
  RunObserver* observer = nullptr;        ///< never null
};

/// The loop of one session: windows, evaluations and checkpoints until a stop is reached.
class TrainingLoop {
 public:
  explicit TrainingLoop(const LoopContext& context);

  /// Runs to the end. @return why it stopped: "epochs", "minutes", "patience", "callback", "signal", …
  /// @throws Error(kDiverged), Error(kDoesNotFit), and whatever data, devices and disks throw. Unless the run
  /// diverged, what it had learned up to its last whole update is saved first.
  std::string run();

 private:
  void run_to_the_end();

  // One window: its samples, forward and backward, then the previous update's figures, then apply.
  void train_window();
  bool accumulate_window(int64_t samples);
  void apply_window(int64_t samples);
  int64_t next_window_samples() const;

  // What may befall a window (mishaps.cpp). A window is a transaction: when memory runs out it is dropped and
  // its samples are run again.
  enum class Attempt { kDone, kStopped, kAgain };
  Attempt attempt(int64_t samples, const std::function<bool()>& part);
  void prepare_another_attempt(const std::exception& error, int64_t samples);
  void after_attempts();
  void adopt_micro_batch(int64_t micro_batch);
  int64_t smaller_micro_batch(int64_t samples) const;
  std::string layer_out_of_memory();
  std::optional<Refusal> free_memory();

  std::optional<Evaluation> evaluate_with_recovery(const std::function<bool(int64_t)>& proceed);
  void prepare_another_evaluation(const std::exception& error, int attempts);

  void consider_divergence(const UpdateOutcome& outcome);
  Error diverged(const UpdateOutcome& outcome, const std::string& why_here = "") const;
  std::string first_non_finite() const;
  void roll_back();

  // How it is saved (saving.cpp).
  void checkpoint_now(bool may_go_on = true);
  CheckpointContent content();
  std::optional<TensorLists> background_copy(const TensorLists& live) const;
  Error with_rescue(const Error& error);
  std::string rescue();
  std::string save_here();
  std::string save_elsewhere();

  // Reads the figures of the update that is under way, if there is one.
  void settle();
  void record_applied(const UpdateOutcome& outcome);
  void record_skipped(const UpdateOutcome& outcome);

  void after_window();
  bool evaluate_now();
  bool note_best(Evaluation found);
  void stop(std::string reason);
  void stop_when_over();
  bool stopping() const { return !stopped_by_.empty(); }
  bool all_updates_done() const;
  void note(const std::string& event, const std::string& detail);
  void sample_memory();
  void sample_memory_sometimes();
  void open_loader(int64_t window_samples);
  void tune_loader(double seconds, double waited);
  std::map<std::string, double> account_time();
  void note_bad_samples();
  Progress progress() const;
  Progress progress_with_pending() const;
  double epoch() const;
  double seconds_now() const;

  LoopContext c_;
  const Horizon horizon_;
  const int64_t total_updates_;  // 0: unknown
  const Schedule schedule_;
  std::unique_ptr<TraceFile> trace_;  // null: none was asked for
  std::unique_ptr<Loader> loader_;
  WorkerTuner tuner_;
  std::unique_ptr<CheckpointWriter> writer_;  // null: nothing is written
  int64_t micro_batch_;                       // of the window under way
  int attempts_ = 0;                          // that failed in the window under way
  std::optional<UpdateOutcome> roll_back_for_;
  bool torn_ = false;  // tensors and state are of different updates
  IntervalClock evaluation_clock_;
  IntervalClock checkpoint_clock_;
  std::string stopped_by_;
  std::string first_non_finite_;  // parameter, when the last update allowed to be skipped was queued

  // The update whose figures were not read yet.
  struct Underway {
    PendingUpdate figures;
    double lr = 0;
    int64_t first = 0;  // position of its window in the stream
    int64_t samples = 0;
    Timeline::Stretch stretch = {};  // since the update before it
  } underway_;
  double last_finished_ = 0;  // when the previous update was done
  double session_start_ = 0;
  double seconds_before_ = 0;  // of earlier sessions
  double last_memory_sample_ = 0;
  bool saved_ = false;  // the newest checkpoint holds the state as it is
};

}  // namespace autotrain
