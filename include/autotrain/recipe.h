#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "autotrain/amounts.h"

namespace autotrain {

/// The value of one key. `std::monostate` is YAML's `null`: unset.
using Value = std::variant<std::monostate, bool, int64_t, double, std::string, std::vector<int64_t>,
                           std::vector<double>, std::vector<std::string>, std::map<std::string, std::string>>;

/// A row of a table (a model, a data set, a loss, …) chosen by name, with the keys that this row
/// declares. Keys that are absent have the row's default.
struct Choice {
  std::string name = {};
  std::map<std::string, Value> parameters = {};
  bool operator==(const Choice&) const = default;
};

// ---------------------------------------------------------------- what is learned

/// The least and the most of an image's area that a random crop takes.
struct AreaShare {
  double least = 0.08;
  double most = 1;
  bool operator==(const AreaShare&) const = default;
};

struct AugmentRecipe {
  bool flip = false;         ///< mirror images left to right with probability 1/2
  int64_t crop_padding = 0;  ///< pad images by so many zero pixels and crop back at random
  std::optional<AreaShare> random_resized_crop = {};
  double brightness = 0;  ///< pixels × a factor drawn from [1 − brightness, 1 + brightness]; likewise below
  double contrast = 0;    ///< distances to the image's mean grey × a factor
  double saturation = 0;    ///< distances to the pixel's grey × a factor
  double hue = 0;           ///< hues turned by an angle drawn from ±hue of a full turn
  double scale = 0;         ///< of detection: samples are scaled by a factor within 1 ± scale
  double translate = 0;     ///< then shifted by up to this part of their sides, either way
  double shear = 0;         ///< and sheared by up to so many degrees, either way, along both axes
  double mosaic = 0;        ///< probability that a sample is put together from four images
  double mix_up = 0;        ///< probability that another sample is blended into one
  double close_mosaic = 0;  ///< part of the run, its last, without mosaic and mix_up
  double multi_scale = 0;   ///< updates see inputs that are smaller by up to this part
  bool operator==(const AugmentRecipe&) const = default;
};

/// What follows when a sample cannot be read.
enum class BadSamples { kFail, kSkip };

struct DataRecipe {
  Choice train{"fashion_mnist", {}};
  std::optional<Choice> validation = {};
  std::optional<Choice> test = {};  ///< that chooses nothing: read once, when the run has ended
  bool shuffle = true;
  BadSamples bad_samples = BadSamples::kFail;
  AugmentRecipe augment;  ///< of the training data only
  bool operator==(const DataRecipe&) const = default;
};

/// Parameters that are updated otherwise than the others.
struct ParameterGroupRecipe {
  std::vector<std::string> match = {};      ///< patterns of their names: "backbone.*"
  double lr_factor = 1;                     ///< multiplies the learning rate
  std::optional<double> weight_decay = {};  ///< unset: the optimizer's
  std::optional<bool> decay_all = {};       ///< unset: the optimizer's
  int64_t every = 1;                        ///< updates: they learn in updates every, 2 × every, …
  bool operator==(const ParameterGroupRecipe&) const = default;
};

struct OptimizerRecipe {
  Choice algorithm{"adamw", {}};
  double lr = 0.001;              ///< at `reference_batch` samples per update
  int64_t reference_batch = 256;  ///< samples per update that `lr` was tuned for
  double weight_decay = 0;
  bool decay_all = false;                         ///< also decay biases and normalisation weights
  std::optional<double> clip_norm = {};           ///< largest global L2 norm of an update's gradient
  std::vector<ParameterGroupRecipe> groups = {};  ///< a parameter belongs to the first that matches
  bool operator==(const OptimizerRecipe&) const = default;
};

/// Averaging of weights over updates: evaluations and the best checkpoint are then of the averages.
struct AverageRecipe {
  std::optional<int64_t> half_life = {};  ///< samples after which a weight's share has halved; unset: none
  bool operator==(const AverageRecipe&) const = default;
};

/// What follows when updates are not finite.
enum class DivergencePolicy {
  kSkip,      ///< skip them; stop after `stop.max_skipped` in a row
  kStop,      ///< stop at the first that the loss scaler did not cause
  kRollback,  ///< after `stop.max_skipped` in a row, back to the last checkpoint with a smaller learning rate
};

struct DivergenceRecipe {
  DivergencePolicy policy = DivergencePolicy::kSkip;
  double lr_factor = 0.5;     ///< multiplies the learning rate at every rollback
  int64_t max_rollbacks = 3;  ///< one more ends the run
  bool operator==(const DivergenceRecipe&) const = default;
};

struct ScheduleRecipe {
  Choice shape{"constant", {}};
  Span warmup = {};
  bool operator==(const ScheduleRecipe&) const = default;
};

/// How many samples an update has from a place in the run on.
struct BatchStageRecipe {
  int64_t samples = 0;                    ///< of applied updates before it
  std::optional<int64_t> effective = {};  ///< must be set
  bool operator==(const BatchStageRecipe&) const = default;
};

/// Says what derives the stages of a batch that changes.
enum class BatchRule {
  kNone,
  kSeesaw,  ///< where the schedule halves the rate, the batch doubles and the rate is divided by √2
};

struct BatchScheduleRecipe {
  std::vector<BatchStageRecipe> stages = {};  ///< the first at sample 0; empty: by the rule, if there is one
  BatchRule rule = BatchRule::kNone;
  bool operator==(const BatchScheduleRecipe&) const = default;
};

/// Says what the effective batch follows while a run learns.
enum class BatchAdapt {
  kNone,
  kNoise,  ///< the gradient noise scale, at evaluations
};

struct BatchAdaptRecipe {
  BatchAdapt rule = BatchAdapt::kNone;
  bool operator==(const BatchAdaptRecipe&) const = default;
};

/// The bounds of the batches that the program chooses by itself.
struct BatchLimitsRecipe {
  /// The smallest batch that batch.adapt comes to. Unset: half of batch.effective.
  std::optional<int64_t> min_effective = {};

  /// The largest batch that `effective: auto`, the rule of a schedule or batch.adapt comes to. Unset: the
  /// smaller of N ÷ 20 and 8 × reference_batch for `auto`, 8 × batch.effective for the others, but no less
  /// than that.
  std::optional<int64_t> max_effective = {};

  /// The largest micro-batch that the search tries. Unset: it is not bounded.
  std::optional<int64_t> max_micro_batch = {};
  bool operator==(const BatchLimitsRecipe&) const = default;
};

struct BatchRecipe {
  std::optional<int64_t> effective = {};  ///< samples per update over all ranks; unset: auto
  std::string lr_rule = "linear";
  BatchLimitsRecipe limits = {};
  BatchScheduleRecipe schedule = {};
  BatchAdaptRecipe adapt = {};

  bool adapts() const { return adapt.rule != BatchAdapt::kNone; }

  /// Whether updates may have different numbers of samples: schedules then run in samples.
  bool changes() const { return !schedule.stages.empty() || schedule.rule != BatchRule::kNone || adapts(); }
  bool operator==(const BatchRecipe&) const = default;
};

/// Of several stops the first that is reached wins. At least one must be set.
struct StopRecipe {
  std::optional<double> epochs = {};
  std::optional<int64_t> updates = {};
  std::optional<int64_t> samples = {};
  std::optional<double> minutes = {};
  bool keep_last = false;                ///< train on the run's remainder that is smaller than E
  std::optional<int64_t> patience = {};  ///< evaluations without improvement
  double min_delta = 0;                  ///< what counts as improvement of the monitored figure
  int64_t max_skipped = 25;              ///< consecutive skipped updates
  bool operator==(const StopRecipe&) const = default;
};

// ---------------------------------------------------------------- how it is executed

struct EvaluationRecipe {
  Interval every{Interval::Unit::kEpochs, 1};
  std::string monitor = "loss";                          ///< decides the best checkpoint and early stopping
  std::optional<std::vector<std::string>> metrics = {};  ///< beside the loss; unset: those that go with it
  std::optional<int64_t> micro_batch = {};               ///< unset: the one that training executes
  bool operator==(const EvaluationRecipe&) const = default;
};

enum class Precision {
  kAuto,
  kFp32,
  kTf32,  ///< fp32 whose products round their operands to 10 bits: NVIDIA GPUs from Ampere on
  kBf16,
  kFp16,
  kInt8,  ///< of linear layers, for inference in a sweep only
};

/// How the images of a batch lie in memory; their sizes stay [n, C, H, W].
enum class MemoryFormat {
  kAuto,
  kContiguous,    ///< plane after plane
  kChannelsLast,  ///< all channels of a pixel together
};
enum class Cut { kEven, kFull };
enum class Pivot { kInterpolate, kMidpoint };
enum class Recovery { kShrink, kStop };

/// Says what ranks share out instead of each having the whole.
enum class Sharding { kNone, kOptimizer };

/// Whether runs estimate how noisy their gradients are.
enum class Statistics {
  kAuto,  ///< where an update has parts to compare
  kOn,    ///< the same, and a run that has none is refused
  kOff,
};

/// Whether the backward pass computes again what the forward pass would keep.
enum class Recompute {
  kOff,
  kOn,
  kAuto,  ///< where trials show that an update is faster so, or does not fit otherwise
};

/// Whether the kernels of an update are recorded and replayed as CUDA graphs.
enum class CudaGraphs {
  kAuto,  ///< where a measured trial is faster with them
  kOn,    ///< wherever they can be recorded
  kOff,
};

/// The signal upon which a run saves its state and ends, ahead of a time limit, so that its job is queued
/// again.
enum class RequeueSignal { kNone, kUsr1, kUsr2 };

struct MemoryRecipe {
  DeviceBudgets budget = {};
  double target_low = 0.80;  ///< the band, as fractions of the budget
  double target_high = 0.90;
  bool operator==(const MemoryRecipe&) const = default;
};

struct SearchRecipe {
  std::string strategy = "binary";
  Pivot pivot = Pivot::kInterpolate;
  std::optional<int64_t> multiple_of = {};  ///< unset: 8 in half precision on a GPU, else 1
  double throughput_share = 0.05;           ///< sizes that lose no more samples per second count as fast
  int64_t max_probes = 12;
  double max_seconds = 120;
  bool plan_cache = true;
  bool operator==(const SearchRecipe&) const = default;
};

/// Where all samples of a data set are held instead of being made anew each time.
enum class Preload {
  kAuto,
  kOff,
  kRam,     ///< in main memory
  kDevice,  ///< in the device's, as bytes; on a CPU that is main memory
};

struct LoaderRecipe {
  std::optional<int64_t> workers = {};   ///< threads; unset: as a trial's rates ask, tuned from there
  std::optional<int64_t> prefetch = {};  ///< micro-batches prepared ahead of the step; unset: one a worker
  Budget prefetch_memory = {};           ///< of them; auto: unbounded on a CPU, where the plan counts them
  Preload preload = Preload::kAuto;      ///< auto: images, where that spares work and takes little memory
  bool operator==(const LoaderRecipe&) const = default;
};

/// The gradient scaler of fp16, with the semantics of torch.amp.GradScaler.
struct ScalerRecipe {
  double initial_scale = 65536;
  double growth_factor = 2;
  double backoff_factor = 0.5;
  int64_t growth_interval = 2000;  ///< consecutive applied updates
  double min_scale = 1;
  bool operator==(const ScalerRecipe&) const = default;
};

struct ExecutionRecipe {
  std::string device = "auto";
  Precision precision = Precision::kAuto;
  MemoryFormat memory_format = MemoryFormat::kAuto;
  std::optional<int64_t> micro_batch = {};  ///< unset: found by the search
  Cut cut = Cut::kEven;
  std::optional<int64_t> lanes = {};  ///< that an update is accumulated in; unset: as many as there are ranks
  Sharding shard = Sharding::kNone;   ///< what ranks share out
  std::optional<int64_t> threads = {};             ///< unset: the physical cores this process may use
  std::optional<bool> deterministic = {};          ///< unset: yes on a CPU, no on a GPU
  Recovery recovery = Recovery::kShrink;           ///< when memory runs out in mid-run
  std::optional<std::vector<int64_t>> trace = {};  ///< first and last update of trace.json; unset: none
  double telemetry = 1;                            ///< seconds between rows of telemetry.jsonl; 0: none
  Statistics statistics = Statistics::kAuto;       ///< of gradients
  CudaGraphs cuda_graphs = CudaGraphs::kAuto;
  Recompute recompute = Recompute::kOff;         ///< in the backward pass, what would be kept for it
  std::optional<int64_t> recompute_blocks = {};  ///< of a model in C++, the first so many; unset: all
  bool offload = false;                          ///< what the backward pass needs waits in main memory
  RequeueSignal requeue_signal = RequeueSignal::kNone;
  MemoryRecipe memory;
  SearchRecipe search;
  LoaderRecipe loader;
  ScalerRecipe scaler;
  bool operator==(const ExecutionRecipe&) const = default;
};

struct CheckpointRecipe {
  Interval every{Interval::Unit::kEpochs, 1};
  int64_t keep = 2;        ///< newest checkpoints kept, besides the best
  bool background = true;  ///< write while training goes on, where a copy of the state fits
  std::optional<std::string> fallback =
      {};                       ///< folder to save the state in when the run folder cannot be written
  double full_disk_wait = 300;  ///< seconds in which a full disk may find room again before the run ends
  bool operator==(const CheckpointRecipe&) const = default;
};

/// What a run leaves for people beside its metrics.
struct ReportRecipe {
  bool html = true;         ///< report.html
  bool csv = true;          ///< tables of what stands in JSON
  bool tensorboard = true;  ///< event files in tensorboard/
  bool operator==(const ReportRecipe&) const = default;
};

// ---------------------------------------------------------------- what is measured

enum class SweepMode {
  kInference,  ///< forward passes, without gradients
  kTraining,   ///< forward, backward and the optimizer's step
};

/// What `autotrain sweep` measures of the recipe; a run takes no notice of it.
struct SweepRecipe {
  SweepMode mode = SweepMode::kInference;
  std::string batches = "auto";                    ///< "auto", "1..4096" (powers of two) or "1,32,128"
  std::optional<std::string> vary = {};            ///< "key=value,value,…": one further axis
  std::optional<double> latency_ms = {};           ///< what a batch may take at its 99th percentile
  std::optional<std::string> device_figures = {};  ///< "65TFLOP/s,300GB/s" of another device, to predict for
  int64_t rounds = 2;                              ///< measurements of each point, in processes of their own
  double max_seconds = 2;                          ///< of repeats in one measurement
  bool operator==(const SweepRecipe&) const = default;
};

/// Says what follows where a file of weights and a model do not match.
enum class Unmatched {
  kFail,  ///< the run does not begin
  kKeep,  ///< the model's tensor stays as it was drawn
};

/// Says where a run's first weights come from.
struct WeightsRecipe {
  std::optional<std::string> file = {};  ///< safetensors, or the index of several; unset: drawn from the seed
  std::vector<std::string> skip = {};    ///< patterns of names that are not taken: "fc.*"
  std::vector<std::string> rename = {};  ///< "expression -> name", tried in this order on names of the file
  Unmatched missing = Unmatched::kFail;  ///< a tensor of the model that the file lacks
  Unmatched shapes = Unmatched::kFail;   ///< one that has another shape there
  bool operator==(const WeightsRecipe&) const = default;
};

/// Low-rank adapters (LoRA, Hu et al. 2021): a weight W [out, in] that is matched stays as it is, and the
/// layer computes with W + (alpha ÷ rank) · B · A, where A [rank, in] and B [out, rank] learn.
struct LoraRecipe {
  std::vector<std::string> match = {};  ///< patterns of weights, or of modules that have some; empty: none
  std::optional<int64_t> rank = {};     ///< unset: 8
  std::optional<double> alpha = {};     ///< unset: twice the rank
  std::vector<std::string> train = {};  ///< patterns of parameters or modules that learn whole

  bool active() const { return !match.empty(); }
  int64_t rank_used() const { return rank.value_or(8); }
  double alpha_used() const { return alpha.value_or(2 * static_cast<double>(rank_used())); }
  double scale() const { return alpha_used() / static_cast<double>(rank_used()); }
  bool operator==(const LoraRecipe&) const = default;
};

/// A whole run. Everything above `evaluation` is *what is learned*; the rest is *how it is executed*
/// and changing it never changes the meaning of the first half.
///
/// A value. Read from YAML by `load_recipe` (autotrain/trainer.h), or built field by field.
struct Recipe {
  std::string name = "run";
  int64_t seed = 1;
  DataRecipe data;
  Choice model{"cnn", {}};
  std::vector<std::string> freeze = {};  ///< patterns of parameters that stay as they are: "layer1.*"
  WeightsRecipe weights;
  LoraRecipe lora;
  Choice loss{"cross_entropy", {}};
  OptimizerRecipe optimizer;
  ScheduleRecipe schedule;
  AverageRecipe average;
  BatchRecipe batch;
  StopRecipe stop;
  DivergenceRecipe divergence;
  EvaluationRecipe evaluation;
  ExecutionRecipe execution;
  CheckpointRecipe checkpoint;
  ReportRecipe report;
  SweepRecipe sweep;

  /// Where each key that was given stands: dotted path → "file:line:column" or "--set". Tells what
  /// was asked for from what is a default; does not take part in comparison.
  std::map<std::string, std::string> origins = {};

  /// Whether the user gave this key.
  bool asked(const std::string& path) const { return origins.contains(path); }

  bool operator==(const Recipe& other) const;
};

}  // namespace autotrain
