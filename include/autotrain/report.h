#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "autotrain/figures.h"

namespace autotrain {

/// How long the passes of one update took on the ranks that made it: loading, copying, forward, backward.
struct RankTimes {
  double fastest = 0;  ///< seconds
  double mean = 0;
  double slowest = 0;
  int64_t slowest_rank = 0;
};

/// The gradient noise scale tr Σ ÷ |G|² in samples: of an update of so many, noise and direction have the
/// same share (docs/batch.md).
struct NoiseScale {
  std::optional<double> samples = {};  ///< nothing: it is at least `low`, and may be anything above
  double low = 0;                      ///< of the 95 % interval
  std::optional<double> high = {};
};

/// The estimates of gradient noise from one update. They are unbiased, so either may be negative.
struct GradientNoise {
  double trace = 0;                      ///< of the covariance of one sample's gradient, tr Σ
  double square = 0;                     ///< squared norm of the true gradient, |G|²
  std::optional<NoiseScale> scale = {};  ///< from the later half of the updates so far; nothing: too few
};

/// One applied update, as a row of metrics.jsonl.
struct UpdateRecord {
  int64_t update = 0;                             ///< applied updates, this one included
  double epoch = 0;                               ///< samples ÷ samples in the data set
  int64_t samples = 0;                            ///< of the stream consumed so far, over all ranks
  int64_t effective_batch = 0;                    ///< samples of this update, over all ranks
  double loss = 0;                                ///< Σ loss sums ÷ Σ weights of this update
  std::map<std::string, double> loss_parts = {};  ///< LossTerms::parts, each Σ sums ÷ Σ weights; empty: none
  double lr = 0;                                  ///< used by this update
  double grad_norm = 0;                           ///< global L2 norm before clipping
  double scale = 1;                               ///< loss scale
  double samples_per_second = 0;                  ///< over all ranks, since the previous update
  int64_t peak_bytes = 0;                         ///< since training started: reserved plus outside
  double data_wait_fraction = 0;  ///< share of the time since the previous update spent waiting for data
  double training_seconds = 0;    ///< spent on updates so far, over all sessions; evaluations are left out

  /// Seconds since the previous update by what the device did: data_wait, copy, forward, backward, update,
  /// communication, evaluation, checkpoint, other.
  std::map<std::string, double> activity_seconds = {};

  std::optional<RankTimes> ranks = {};  ///< nothing: there is but one

  std::optional<GradientNoise> noise = {};  ///< nothing: not measured, as in most windows of a long run

  /// The same of gradients that are divided by the root of their second moment, as Adam and its like do, from
  /// every 16th window or fewer; nothing: not measured.
  std::optional<GradientNoise> preconditioned_noise = {};
};

/// Loss and metrics of a whole data set.
struct EvaluationRecord {
  int64_t update = 0;
  double epoch = 0;
  std::string split = {};                      ///< "validation"
  std::map<std::string, double> figures = {};  ///< "loss", "accuracy", …; NaN: these data cannot tell
  FigureKinds kinds = {};                      ///< of every figure
  std::vector<FigureTable> tables = {};
  double seconds = 0;
  int64_t samples = 0;
};

enum class EventKind {
  kSkipped,      ///< an update whose loss or gradient was not finite
  kOutOfMemory,  ///< memory ran out, and the same samples are run again
  kPlan,         ///< the micro-batch is another one from now on
  kRollback,     ///< the run went back to a checkpoint
  kBadSample,    ///< one that could not be read was left out
  kBatch,        ///< updates have another number of samples from now on
  kResumed,      ///< the run goes on with another recipe or other data than before
};

/// As metrics.jsonl has it: "skipped", "out_of_memory", "plan", "rollback", "bad_sample", "batch", "resumed".
std::string to_string(EventKind kind);

/// Something that happened to the run.
struct EventRecord {
  int64_t update = 0;
  EventKind event = EventKind::kSkipped;
  std::string detail = {};
};

enum class RunStatus { kCompleted, kInterrupted, kFailed };

/// "completed", "interrupted", "failed".
std::string to_string(RunStatus status);

/// Why training ended: the limit of the recipe's section `stop` that was reached first, or who ended it.
enum class StopReason {
  kNone,  ///< it goes on
  kEpochs,
  kUpdates,
  kSamples,
  kMinutes,
  kPatience,
  kCallback,
  kSignal,
  kError,
};

/// "epochs", "updates", "samples", "minutes", "patience", "callback", "signal", "error"; "" of kNone.
std::string to_string(StopReason reason);

/// Says what one of several ranks did in a session.
struct RankSummary {
  std::string host = {};
  double seconds = 0;   ///< that its passes took
  int64_t slowest = 0;  ///< updates whose slowest rank it was
};

/// How a run ended.
struct Summary {
  RunStatus status = RunStatus::kCompleted;
  int exit_code = 0;
  std::string error = {};  ///< of a failed run
  StopReason stopped_by = StopReason::kNone;
  int64_t updates = 0;
  double epochs = 0;
  int64_t samples = 0;
  double seconds = 0;                        ///< of training and evaluation, over all sessions of the run
  double samples_per_second = 0;             ///< training samples ÷ seconds spent on updates, all sessions
  std::map<std::string, double> final = {};  ///< figures of the last evaluation; without one, "train_loss"
  std::map<std::string, double> best = {};   ///< figures of the best evaluation, and "update"
  std::map<std::string, double> test =
      {};                                ///< figures of data.test, and "update" of the weights; empty: none
  FigureKinds figure_kinds = {};         ///< of all that evaluations measured
  std::vector<FigureTable> tables = {};  ///< of the last evaluation
  int64_t peak_bytes = 0;
  int64_t oom_recoveries = 0;
  int64_t skipped_updates = 0;
  int64_t rollbacks = 0;
  int64_t bad_samples = 0;              ///< that this session met and went on after
  int64_t loader_workers = 0;           ///< threads that loaded at the end; 0: the one that trained
  double checkpoint_stall_seconds = 0;  ///< that training waited for checkpoints, over all sessions
  double data_wait_fraction = 0;
  std::map<std::string, double> activity_seconds = {};  ///< as in UpdateRecord, over all updates
  std::map<std::string, double> telemetry = {};  ///< mean readings of this session; empty: none were taken
  std::optional<NoiseScale> noise_scale = {};    ///< over the later half of the run; nothing: unknown
  std::optional<NoiseScale> preconditioned_noise_scale = {};  ///< likewise, in the optimizer's metric
  std::vector<RankSummary> ranks = {};  ///< of this session, in their order; empty: there is but one
  double rank_wait_fraction = 0;  ///< of the passes' time: how long a rank waits for the slowest, on average
  std::string folder = {};        ///< the run folder; empty when none was written
};

}  // namespace autotrain
