#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "autotrain/data.h"
#include "autotrain/plan.h"
#include "autotrain/recipe.h"
#include "autotrain/report.h"
#include "autotrain/task.h"
#include "autotrain/torch_optimizer.h"

namespace autotrain {

class RankGroup;

/// Reads a recipe file with everything it extends.
/// @param overrides "a.b=value" each, applied in order.
/// @throws Error with file, line, column and what is allowed.
Recipe load_recipe(const std::filesystem::path& path, const std::vector<std::string>& overrides = {});

/// Whether training goes on after a callback.
enum class Flow { kContinue, kStop };

/// Follows a run from outside. What a method throws ends the run, after its state was saved. Every method is
/// called from the thread that runs `fit`, in the order of events; none may call back into the trainer.
class RunObserver {
 public:
  virtual ~RunObserver() = default;

  /// The run writes into this folder, or its first rank does. Told before anything else, and to every rank.
  virtual void on_folder(const std::filesystem::path& folder) { (void)folder; }

  /// The search is about to start; everything that is known by now.
  virtual void on_search_start(const Recipe&) {}
  virtual void on_trial(int64_t micro_batch) { (void)micro_batch; }  ///< one is about to be made
  virtual void on_probe(const ProbeRecord&) {}

  /// Before the first update. `rows`: every resolved number as {what, value, where it comes from}.
  virtual void on_start(const BatchPlan&, const std::vector<std::vector<std::string>>& rows) { (void)rows; }

  /// @param total_updates of the whole run; 0 when only time stops it.
  virtual void on_update(const UpdateRecord&, int64_t total_updates) { (void)total_updates; }
  virtual void on_evaluation_progress(int64_t samples, int64_t total) { (void)samples, (void)total; }
  virtual void on_evaluation(const EvaluationRecord&) {}
  virtual void on_event(const EventRecord&) {}

  /// @param advice what was left on the table and what to try, one sentence each.
  virtual void on_finish(const Summary&, const BatchPlan&, const std::vector<std::string>& advice) {
    (void)advice;
  }
};

struct TrainerOptions {
  std::filesystem::path output = {};  ///< run folder; empty: runs/<name>-<n>, the first free n
  bool write_files = true;            ///< false: no run folder, no checkpoints, no metrics
  bool resume = false;                ///< go on from the newest checkpoint in `output`; none there: start
  bool allow_change = false;          ///< resume although the recipe changes what is learned
  bool fresh_plan = false;            ///< ignore the plan cache

  /// Search in a process of its own, a copy of this one (fork): nothing that the search leaves in memory
  /// counts for the run, and a library that dies of memory that is short ends a trial, not the program. For
  /// `from_recipe` in a process that has not computed with LibTorch yet.
  bool search_apart = false;
  RunObserver* observer = nullptr;  ///< must outlive the trainer

  /// In the place of the recipe's optimizer: optimizers of LibTorch's kind, each over some of the parameters,
  /// with its own clock, rate and turns. The recipe's schedule is a factor of each one's rate; its
  /// `optimizer` says no more than `clip_norm` then.
  std::vector<TorchOptimizer> optimizers = {};

  /// The caller's own process group of c10d (`autotrain/rank_group.h`): the run is made by its ranks. Null:
  /// by those that a launcher started, or by one.
  std::shared_ptr<const RankGroup> group = {};
};

/// A training run: plans, trains, evaluates, checkpoints, resumes.
///
/// One trainer is one run; use it from one thread. Trainers of one thread may live and be used in turn, one
/// within a callback of another too; while one works, a call in another thread is an Error(kUsage). What a
/// run changes of the process (random generators, threads, determinism, signals, environment) is as it was
/// whenever a call returns or throws; docs/embedding.md lists it. Memory that the program takes outside of
/// these calls, in callbacks and in threads of its own is not in the run's budget.
class Trainer {
 public:
  /// A run of the caller's own module, data and loss. The data sets must outlive the trainer. The module is
  /// moved to the run's device.
  /// @throws Error(kBadRecipe) when the recipe contradicts itself, or gives a key that is for a model, a loss
  /// or data that it names (`model`, `loss`, `data` but for `data.shuffle`, `evaluation.metrics`), and which
  /// nobody would read; Error(kDoesNotFit) when the device
  /// has no memory.
  Trainer(Recipe recipe, std::unique_ptr<Task> task, const Dataset& train, TrainerOptions options = {});
  Trainer(Recipe recipe, std::unique_ptr<Task> task, const Dataset& train, const Dataset& validation,
          TrainerOptions options = {});

  /// A run of what the recipe names.
  /// @throws Error as the data sets and the model find their parts.
  static Trainer from_recipe(Recipe recipe, TrainerOptions options = {});

  /// A trainer that was moved from may be assigned to and destroyed; what else is called on it throws
  /// Error(kUsage).
  ~Trainer();
  Trainer(Trainer&&) noexcept;
  Trainer& operator=(Trainer&&) noexcept;

  /// Called after every applied update and before any other pass, evaluation or checkpoint; kStop ends the
  /// run at this update, with a checkpoint. On a GPU, an update is waited for where there is a callback.
  void on_update(std::function<Flow(const UpdateRecord&)> callback);
  void on_evaluation(std::function<Flow(const EvaluationRecord&)> callback);

  /// The plan; made by a search at the first call (or taken from the checkpoint when resuming).
  /// @throws Error(kDoesNotFit) with a post-mortem.
  const BatchPlan& plan();

  /// What evaluations measure, by name: "loss" and the figures of the task's metrics. Evaluates one sample.
  /// Precondition: there is validation data.
  FigureKinds figure_kinds();

  /// Gives parameters and buffers the values of a safetensors file that has all of them by name
  /// (`model.safetensors` of a checkpoint, say), half precision becoming their own type. To be called before
  /// `fit`; a resume goes on from its checkpoint all the same.
  /// @throws Error: kUsage after `fit`, kMissingFile, and kBadData naming the tensors that do not match.
  void load_weights(const std::filesystem::path& file);

  /// Plans if need be, trains to the end, evaluates, checkpoints. A trainer does it once.
  /// @throws Error: kUsage at a second call, kDoesNotFit, kDiverged, kInputOutput, kBadData, and
  /// kBrokenContract when the task, the data set or a callback throws or gives what it must not. The run
  /// folder then says `failed` with the same text. A stop by signal or callback is no error: see
  /// Summary::status.
  Summary fit();

  /// Evaluates the module as it is now on other data, as the run does on its own. Nothing is recorded, and
  /// the run's best is what it was.
  /// @throws Error as evaluations in `fit` do.
  EvaluationRecord evaluate(const Dataset& data);

  /// Which weights and buffers the module is given.
  enum class Weights {
    kLast,     ///< of the last update, as `fit` leaves them
    kBest,     ///< of the best evaluation, as they were evaluated, with Task::state; there must be a folder
    kAverage,  ///< averages over the updates (average.half_life)
  };

  /// To be called after `fit`, any number of times.
  /// @throws Error(kUsage) before `fit`, and where there are no such weights.
  void take(Weights which);

  /// The trained module, in the mode (training, evaluation) that the caller left each of its parts in.
  torch::nn::Module& module();

 private:
  class Run;
  explicit Trainer(std::unique_ptr<Run> run);
  Run& run() const;
  std::unique_ptr<Run> run_;  // null: it was moved from
};

}  // namespace autotrain
