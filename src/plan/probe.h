#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>

#include "autotrain/plan.h"
#include "data/crowded.h"
#include "data/loading_rates.h"
#include "device/failure.h"
#include "plan/size_search.h"
#include "plan/trial_feed.h"
#include "plan/workbench.h"

namespace autotrain {

/// What a trial that failed like this came to. Precondition: the failure is about memory.
ProbeOutcome outcome_of(Failure failure);

/// Has peaks counted from clean caches on.
void begin_trial(MemoryMeter& memory);

/// Raises the record's bytes to those of a peak.
void raise_to(ProbeRecord& record, const MemoryPeak& peak);

/// The size under trial and the window it will have in the run.
struct TrialShape {
  int64_t micro_batch = 0;
  int64_t window_samples = 0;          ///< of a lane, of which each rank tries one; at least micro_batch
  int64_t evaluation_micro_batch = 0;  ///< 0: no evaluation in this run

  /// Samples of a lane in updates that are smaller: of other stages, and of the last one of the run.
  std::vector<int64_t> smaller_windows = {};
};

/// The micro-batches of a window that a trial runs: at most two full ones, since the second already has
/// gradients beside it and a third adds nothing, and the remainder if it has another size.
std::vector<Piece> trial_pieces(const Piece& window, int64_t micro_batch);

/// Measures one micro-batch size by running the run's own update at it: real samples, real loader,
/// real optimizer with the skip flag forced, so that parameters and state stay as they are. On a device that
/// copies ahead, as many uploaded batches stand beside the one that is worked on as in the run.
class Probe {
 public:
  /// @param target_high the band's upper edge, as a fraction of the budget.
  Probe(Workbench& bench, double target_high) : Probe(bench, bench.step, target_high) {}

  /// @param step what accumulates in the place of the workbench's own, as in another precision.
  Probe(Workbench& bench, UpdateStep& step, double target_high);
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;

  void set_target_high(double target_high) { target_high_ = target_high; }

  /// One trial from clean state: caches emptied before, one update, and if `extend` says so everything else
  /// of which the run will have the shape: one more update, those that are smaller if they are cut otherwise,
  /// an evaluation micro-batch and what is left over of an evaluation. Where samples differ in cost all are
  /// of the costliest, and an update of typical ones follows, with one more of the costliest behind it. Where
  /// batches take memory with the objects of a sample, as many are in each of its as in any of the run. Where
  /// random numbers decide what a pass takes, some more updates follow that draw others.
  /// Leaves no trace: generators, scaler and buffers are put back, gradients dropped.
  /// @throws whatever the task throws that does not mean "does not fit".
  /// All ranks make the same trial together: its record is that of the rank on which it went worst.
  ProbeRecord run(const TrialShape& shape, const ExtendTrial& extend);

  /// From now on a trial's updates but the first are recorded, where they can be: the memory of recordings is
  /// part of its peak. @param make null: they are launched.
  void record_with(std::function<std::unique_ptr<WorkRecorder>()> make) { make_recorder_ = std::move(make); }

  /// The first window of a trial of this shape, in main memory, in its micro-batches.
  std::vector<Batch> load_window(const TrialShape& shape);

  /// What the last refused trial was refused, if the allocator could tell.
  const std::optional<Refusal>& last_refusal() const { return refusal_; }

  /// What a library said when the last trial ended with kLibrary or kIndexLimit, else "".
  const std::string& library_error() const { return library_error_; }

 private:
  using Pieces = std::vector<Piece>;
  void measure(const TrialShape& shape, const ExtendTrial& extend, ProbeRecord& record);
  bool run_worst(const TrialShape& shape, const ExtendTrial& extend, ProbeRecord& record);
  Pieces worst_pieces(int64_t samples, int64_t micro_batch);
  bool on_any_rank(bool mine);
  void run_other_draws(TrialFeed& feed, const Pieces& pieces, ProbeRecord& record);
  void run_smaller_windows(const TrialShape& shape, Pieces known, ProbeRecord& record);
  void run_mixed(const TrialShape& shape, ProbeRecord& record);
  void update(TrialFeed& feed, const Pieces& pieces, int64_t window, ProbeRecord& record);
  void evaluate(const TrialShape& shape);
  void evaluate_next(const Piece& piece, PieceSource pieces);
  bool makes_batches(const Dataset& dataset) const;
  TrialFeed feed_worst(const Pieces& pieces);
  Loader::Options loading();
  Loader::Options loading_timed();
  void stand_beside(const Dataset& dataset, bool several);
  Batch upload(const Batch& batch);
  void keep_beside(const Batch& there);
  int64_t expected_growth(int64_t each);
  void set_apart_peak();
  MemoryPeak peak() const;
  bool drew(int64_t window, int64_t offset) const;
  void take_peak(ProbeRecord& record) const;  ///< the highest so far
  ProbeRecord agreed(const ProbeRecord& mine);

  Workbench& bench_;
  UpdateStep& step_;
  double target_high_;
  const FullestBatches train_;
  std::optional<const FullestBatches> validation_;
  Piece worst_;                      // window of the last trial; to find it takes a look at every sample
  int64_t lengths_ = 0;              // that samples may have; 0: not counted yet
  LoadTimes loads_;                  // of this trial's training samples
  double load_seconds_ = 0;          // of a thread, for each of them; 0: not measured yet
  MemoryPeak set_apart_;             // of this trial, from before peaks were last counted anew
  std::vector<int64_t> pass_peaks_;  // of the last update: what tensors held at most in each pass
  bool draws_ = false;               // whether a pass of this trial drew random numbers
  bool told_of_draws_ = false;
  int64_t batches_beside_ = 0;
  std::deque<Batch> beside_;                                        // the last ones that were worked on
  std::optional<TrialBatches> worst_batches_, evaluation_batches_;  // where trials make their own
  std::function<std::unique_ptr<WorkRecorder>()> make_recorder_;
  std::optional<Refusal> refusal_;
  std::string library_error_;
};

}  // namespace autotrain
