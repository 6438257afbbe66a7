#pragma once

#include <c10/core/Event.h>

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "autotrain/batch.h"
#include "autotrain/task.h"
#include "comm/exact_sum.h"
#include "comm/ranks.h"
#include "device/host_mover.h"
#include "device/timeline.h"
#include "optim/optimizer.h"
#include "optim/preconditioned_norm.h"
#include "optim/scaler.h"
#include "optim/weight_average.h"
#include "step/changing_buffers.h"
#include "step/flat_gradients.h"
#include "step/gradient_noise.h"
#include "step/input_scale.h"
#include "step/lane_sum.h"
#include "step/recordings.h"
#include "step/shard.h"

namespace autotrain {

struct StepOptions {
  torch::Device device = torch::kCPU;
  Precision precision = Precision::kFp32;          ///< resolved: never kAuto
  std::optional<double> clip_norm = std::nullopt;  ///< of the true gradient of the mean loss
  uint64_t seed = 0;

  /// A power of two near 1 ÷ (weight of one micro-batch). The gradient of a loss *sum* times the
  /// loss scale would overflow fp16; a power of two adds no rounding.
  double loss_factor = 1;

  /// Whether micro-batches, gradients and the learning rate have the same addresses at every update, so that
  /// the host brings nothing new but seeds: what a recorded step needs, which is run again and again. The
  /// same bits either way on a CPU; a GPU's kernels read such a rate as float32. One micro-batch of every
  /// shape is kept for good, so this is for data whose samples are alike.
  bool static_buffers = false;

  Ranks* ranks = nullptr;  ///< with whom every update is made; null: with nobody
  int64_t lanes = 1;       ///< of a window on this rank

  /// Whether outcomes have norms, of the first micro-batch of every lane beside the window's: of so many
  /// lanes, whatever ranks have them, so that these do not depend on the number of ranks either.
  bool statistics = false;

  /// Whether they may have norms in the optimizer's metric too, where it has a second moment: what takes them
  /// is made with the other buffers, and `set_statistics` asks for them. The optimizer is not sharded.
  bool preconditioned_norms = false;

  InputScale input_scale = {};  ///< sizes of the images that updates see

  int64_t recomputed_blocks = 0;  ///< of the model, in the backward pass (`autotrain::checkpoint`)

  /// Moves what a forward pass keeps to main memory until its backward pass needs it; null: it stays.
  std::shared_ptr<HostMover> mover = nullptr;
  Timeline* timeline = nullptr;  ///< follows what the step does; null: nobody asks
};

/// What one update came to.
struct UpdateOutcome {
  bool applied = false;  ///< false: skipped, nothing moved but the scale: not finite, or of weight 0
  double loss = 0;       ///< Σ sums ÷ Σ weights, penalty not included; may be non-finite
  double grad_norm = 0;  ///< global L2 norm of the true gradient, before clipping
  double scale = 1;      ///< loss scale that this update used
  double weight = 0;     ///< Σ weights
  std::map<std::string, double> loss_parts = {};  ///< LossTerms::parts, each Σ sums ÷ Σ weights

  WindowNorms norms = {};  ///< without StepOptions::statistics: of no micro-batch

  /// Likewise of gradients that are divided by the root of their second moment as it was before the update.
  WindowNorms preconditioned_norms = {};
};

/// The figures of an update that was queued but may not have finished on the device.
class PendingUpdate {
 public:
  PendingUpdate() = default;

  /// @param figures [9] float64 on the device, in the order of UpdateOutcome; [11] with preconditioned norms;
  /// then the parts of the loss, [kMostLossParts], where these have names.
  PendingUpdate(const torch::Tensor& figures, std::vector<std::string> part_names);

  bool valid() const { return host_.defined(); }

  /// Should the update be skipped, `name` cannot be put back: it was written to while nobody watched.
  void cannot_put_back(std::string name) { written_ = std::move(name); }

  /// Waits for the device if need be. Precondition: valid.
  /// @throws Error(kBrokenContract) when it was skipped and left a trace; the figures are valid still.
  UpdateOutcome read();

 private:
  torch::Tensor host_;
  std::vector<std::string> part_names_;
  std::string written_;
  std::optional<c10::Event> copied_;
};

/// One update from ready-cut micro-batches: autocast, backward of the sum, the sum over lanes and ranks, one
/// division by the whole weight, check, clip, apply, scale.
///
/// The order is fixed: every `accumulate` of a window, with `end_lane` after those of each lane, then
/// `prepare` and `commit`, or `abandon` at any time before. No host synchronisation happens in any of them
/// with one rank. Gradients live only between the first `accumulate` and the end of the window. A window is a
/// transaction: one that is abandoned or skipped leaves no trace, in buffers neither (a skipped one lowers
/// the loss scale).
///
/// With several ranks, all must know that every rank has come so far before any of them prepares, and before
/// any of them commits; `meet` is how they do.
class UpdateStep {
 public:
  /// All must outlive the step. @param average null: weights are not averaged.
  UpdateStep(Task& task, Optimizer& optimizer, GradScaler& scaler, StepOptions options,
             WeightAverage* average = nullptr);

  /// Which update the next windows are for; before that, trials.
  void set_info(const UpdateInfo& info) {
    info_ = info;
    optimizer_.begin_update(info);
  }

  /// Forward and backward of one micro-batch, already on the device.
  /// @param window number of the window in the run; @param offset of the micro-batch's first sample
  /// in the window. Both key the model's random numbers.
  void accumulate(const Batch& batch, int64_t window, int64_t offset);

  /// Ends a lane of the window, whether it had micro-batches or none. For the last one, too.
  void end_lane();

  /// Ends the lane under way and leaves those behind it empty: for a part of a window that stands for all.
  void end_lanes();

  /// Tells the other ranks that every lane of this one is done, and hears the same of them: which parameters
  /// an update changes is decided together. With one rank nothing is asked.
  /// @return everyone's note. @throws as Ranks::meet.
  std::vector<Ranks::Note> meet(const Ranks::Note& mine = {}, double patience = Ranks::kLongest);

  /// How the window ends. kForceSkip runs every kernel but leaves parameters, optimizer state and buffers as
  /// they were: what a probe does.
  enum class Apply { kYes, kForceSkip };

  /// What shares out the optimizer among the ranks; null: each has the whole. Allocates the window's buffers
  /// when it is first asked for.
  Shard* shard();

  /// Sums the window's gradients over the ranks and gets all memory that applying them needs. No parameter
  /// moves: when it throws for lack of memory, the window can be abandoned and run again.
  void prepare(double lr, Apply apply = Apply::kYes);

  /// Applies the gradient that was prepared, and drops it.
  PendingUpdate commit();

  /// Ends the lanes, prepares and commits, where no rank has to be asked.
  PendingUpdate finish(double lr, Apply apply = Apply::kYes);

  /// Whether the window under way, if any, can be taken back: parameters and optimizer state are as they
  /// were, and so are the buffers, or copied.
  bool replayable() const { return !committing_ && !(window_open_ && buffers_.changed_for_good()); }

  /// Drops gradients and sums of an unfinished window, and puts back the buffers that its forward passes
  /// changed.
  void abandon();

  /// The first parameter, in the model's order, whose gradient is not finite now; "" if none. Waits for
  /// the device: for a run that is about to end anyway.
  std::string first_non_finite_gradient() const;

  /// The first buffer that the window made not finite; "" if none. Likewise waits.
  std::string first_non_finite_buffer() const;

  /// Weight of the micro-batches accumulated so far in this lane. Waits for the device.
  double lane_weight() const;

  /// From now on what the device does for a micro-batch and for an update is recorded the second time that it
  /// is done, and replayed from then on: the host launches three recordings in the place of a thousand
  /// kernels. The same bits. Micro-batches, gradients and the learning rate have fixed addresses meanwhile.
  /// Precondition: no window is under way, `can_record`.
  void record_with(std::unique_ptr<WorkRecorder> recorder);

  /// Whether `record_with` may be called: one lane, one rank, passes that the task leaves to the step, inputs
  /// of one size.
  bool can_record() const {
    return options_.lanes == 1 && !several() && !makes_passes_ && !options_.input_scale.active();
  }

  /// Drops what was recorded, with its memory; nothing is recorded any more. Precondition: no window is under
  /// way.
  void stop_recording();

  /// Whether it records, or would have: see `why_not_recorded`.
  bool records() const { return recordings_ != nullptr; }

  /// Why the step went back to launching each kernel; "" if it did not.
  const std::string& why_not_recorded() const { return why_not_recorded_; }

  /// The gradients of the window under way, still scaled, in fixed places: [elements] float32. Precondition:
  /// the step records.
  const torch::Tensor& recorded_gradients() const { return gradients_->flat(); }

  /// Does not replay until it is called with false: to compare.
  void pass_by_recordings(bool yes) { passed_by_ = yes; }

  const StepOptions& options() const { return options_; }

  /// Has backward passes compute the first so many blocks of the model again (`autotrain::checkpoint`); 0:
  /// none. No bit depends on it. Precondition: no window is open.
  void set_recomputed_blocks(int64_t blocks) { options_.recomputed_blocks = blocks; }
  void set_mover(std::shared_ptr<HostMover> mover) { options_.mover = std::move(mover); }
  void set_loss_factor(double factor) { options_.loss_factor = factor; }

  /// Whether all inputs have the largest size from now on, as in trials, and not that of their update.
  void take_largest_inputs(bool yes) { largest_inputs_ = yes; }

  /// Takes effect with the next window.
  /// @param preconditioned whether norms in the optimizer's metric are taken too, where the options allow it.
  void set_statistics(bool on, bool preconditioned = false) {
    options_.statistics = on && !makes_passes_;
    preconditioned_ = options_.statistics && preconditioned;
  }
  Task& task() { return task_; }

 private:
  // What `commit` applies.
  struct Prepared {
    Optimizer::Update update = {};
    torch::Tensor average_step = {}, found_inf = {}, applies = {};
    PendingUpdate figures = {};
    const Recordings::Update* recorded = nullptr;  // in the place of all of these
  };

  // A micro-batch of a task that makes its passes itself.
  struct Waiting {
    Batch batch;
    int64_t window = 0, offset = 0;
  };
  class LanePasses;

  // A micro-batch in its fixed place.
  struct FixedBatch {
    Batch batch;
    bool passed = false;  // forward and backward at least once
  };
  bool several() const { return options_.ranks != nullptr && options_.ranks->several(); }
  void have_buffers();
  void open_window();
  void close_window();
  void drop_gradients();
  void attach_totals();
  void sum_over_ranks();
  void look_at_buffers();
  bool has_fixed_addresses() const { return options_.static_buffers || recordings_ != nullptr; }
  bool keeps_batches() const {
    return options_.static_buffers || (recordings_ != nullptr && why_not_recorded_.empty());
  }
  bool replays() const { return recordings_ != nullptr && why_not_recorded_.empty() && !passed_by_; }
  std::optional<size_t> at_fixed_address(const Batch& batch);
  Batch at_input_scale(const Batch& batch, int64_t window) const;
  void make_rate();
  bool takes_norms() const { return first_of_lane_ && options_.statistics; }
  LossTerms forward(const Batch& batch);
  void backward(const LossTerms& terms);
  void make_passes();
  void add_terms(const LossTerms& terms);
  void leave_out_of_turn();
  std::vector<bool> turns() const;
  torch::Tensor brought_here(const torch::Tensor& value) const;
  const Recordings::Pass* recorded_pass(size_t batch);
  const Recordings::Update* recorded_update(Apply apply);
  void record(Recordings::Pass& pass);
  void record(Recordings::Update& update, Apply apply);
  void give_up_recording(const std::string& what, const CannotRecord& reason);
  void look_for_other_memory();
  void look_for_decisions();
  bool always_watches() const;
  std::pair<Prepared, torch::Tensor> compute_update(double lr, Apply apply);
  void apply_update(const Prepared& prepared);
  void enter(Activity activity) const;
  torch::Tensor scaled_norm() const;
  torch::Tensor for_the_scaler(const torch::Tensor& found_inf) const;
  bool takes_preconditioned() const { return preconditioned_ && preconditioned_norm_ != nullptr; }
  void take_first_norms(const torch::Tensor& weight);
  torch::Tensor add_penalty(const torch::Tensor& divisor);
  void ask_task();
  void add_parts(const std::vector<NamedTensor>& parts);

  Task& task_;
  Optimizer& optimizer_;
  GradScaler& scaler_;
  StepOptions options_;
  WeightAverage* average_;
  const bool makes_passes_;  // the task does
  const bool own_code_;      // of the program: its parts are none that a recipe names
  std::vector<Waiting> waiting_;
  ChangingBuffers buffers_;
  std::unique_ptr<FlatGradients> gradients_;  // from the first window on, where they must be flat
  std::unique_ptr<ExactSum> gradient_sum_;    // likewise, with several ranks
  std::unique_ptr<SmallSum> total_sum_;
  std::unique_ptr<Shard> shard_;                             // likewise, where the optimizer is sharded
  std::unique_ptr<PreconditionedNorm> preconditioned_norm_;  // from the first window on, where it is allowed
  bool preconditioned_ = false;                              // this window asks for it
  std::deque<FixedBatch> batches_;                           // one of each shape, where addresses are fixed
  torch::Tensor lr_;                                         // likewise: a scalar on the device
  std::unique_ptr<Recordings> recordings_;                   // null: nothing is recorded
  std::string why_not_recorded_;
  std::string switches_;  // of this window, where it is recorded or replayed
  bool largest_inputs_ = false;
  bool recording_ = false;  // right now
  bool passed_by_ = false;  // recordings are not used
  bool updated_ = false;    // at least once since recording was asked for
  LaneSum totals_;  // [7 + kMostLossParts] float64: sum and weight of the losses; first_norms_ and so on
  bool window_open_ = false;
  bool committing_ = false;  ///< true for good when applying an update failed half way
  UpdateInfo info_{.update = 1, .trial = true};
  bool gradients_shown_ = false;         // the task has seen this update's, and may have changed them
  torch::Tensor norm_before_task_ = {};  // where it has, and statistics want it
  std::optional<Prepared> prepared_;
  torch::Tensor loss_sum_;  // scalars of the lane under way; of the window once its lanes are done
  torch::Tensor weight_sum_;
  torch::Tensor first_norms_;            // [3] likewise: as WindowNorms begins, still scaled
  torch::Tensor first_preconditioned_;   // likewise, the squares in the optimizer's metric
  torch::Tensor part_sums_;              // [kMostLossParts], of the loss's parts
  std::vector<std::string> part_names_;  // of a task that has some, from its first micro-batch on
  torch::Tensor buffers_nought_;         // 0, or not a number where the window left a buffer not finite
  bool first_of_lane_ = true;            // the next micro-batch
};

/// Forward, loss and metrics of one batch: no gradients, evaluation mode, the step's autocast.
EvaluationTerms evaluate_batch(Task& task, const Batch& batch, Precision precision);

/// A power of two near 1 ÷ weight.
double loss_factor_for(double weight);

}  // namespace autotrain
