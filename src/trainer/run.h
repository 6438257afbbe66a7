#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "autotrain/error.h"
#include "autotrain/trainer.h"
#include "base/run_thread.h"
#include "device/device_error.h"
#include "device/process_settings.h"
#include "loop/telemetry_sampler.h"
#include "loop/tensorboard_follower.h"
#include "loop/training_loop.h"
#include "setup/assembly.h"
#include "setup/batch_stages.h"
#include "setup/users_code.h"
#include "state/resume.h"
#include "state/run_folder.h"
#include "state/run_state.h"

namespace autotrain {

/// What a Trainer does, and in which order.
class Trainer::Run {
 public:
  /// A run of the caller's own task and data. @param validation null: there is none. It never searches apart:
  /// another process could not make them.
  static std::unique_ptr<Run> of_task(Recipe recipe, std::unique_ptr<Task> task, const Dataset& train,
                                      const Dataset* validation, TrainerOptions options);

  /// A run of what the recipe names. With `options.search_apart` nothing is made before it is needed.
  static std::unique_ptr<Run> of_recipe(Recipe recipe, TrainerOptions options);

  const BatchPlan& plan();
  FigureKinds figure_kinds();
  void load_weights(const std::filesystem::path& file);
  Summary fit();
  EvaluationRecord evaluate(const Dataset& data);
  void take(Weights which);

  Callbacks callbacks;
  Task& task() { return *bench().task; }

 private:
  /// Makes the workbench, on a device whose budget is settled if a plan was made before.
  using Build = std::function<std::unique_ptr<Workbench>(
      const Recipe& recipe, std::optional<ResolvedBudget> settled, std::shared_ptr<Ranks> ranks)>;

  /// Where the run writes, and what it goes on from.
  struct Place {
    std::unique_ptr<RunFolder> folder;        // null: nothing is written
    std::optional<ResumePoint> resume_point;  // nothing: the run begins at its beginning
    std::filesystem::path first_ranks_path;   // of the first rank's folder, on another one
    std::string first_ranks_session;          // that the first rank has begun there
    bool held_a_summary = false;              // before anything was done there

    std::filesystem::path path() const { return folder ? folder->path() : first_ranks_path; }
  };

  /// How far the run came: what its summary says, however it ends.
  struct Reached {
    std::optional<RunState> state;                // nothing: training was not begun
    std::unique_ptr<TelemetrySampler> telemetry;  // null: none is taken
    StopReason stopped_by = StopReason::kNone;
    RankTotals rank_totals = {};
    std::map<std::string, double> test = {};  // as Summary::test
  };

  Run(Recipe recipe, Build build, TrainerOptions options);

  // Made when they are first asked for, and then kept.
  Workbench& bench();
  Place& place();
  const std::optional<ResumePoint>& resume_point();
  BatchPlan& made_plan();

  /// What `work` returns, with the run's settings of the process in force.
  template <class Work>
  auto call(Work work);

  /// What `work` returns. When it throws, the other ranks learn why.
  template <class Work>
  auto together(Work work);

  bool may_be_on_gpu() const;
  EvaluationRecord evaluate_on(const Dataset& data);
  void read_test_data(Reached& reached);
  void draw_boxes_of(const Reached& reached);
  void take_weights_of(Weights which);
  void take_best();
  Summary fit_together();

  bool searches_apart();
  BatchPlan make_plan();
  BatchPlan search(const Recipe& recipe, const std::vector<ProbeRecord>& known, RunObserver& observer);
  BatchPlan search_one_way(Recipe recipe, std::vector<ProbeRecord> known, RunObserver& observer);
  BatchPlan faster_of_both(const std::function<BatchPlan(Recompute)>& plan_with);
  std::vector<int64_t> plan_for_largest(Recipe& recipe);
  BatchStages stages(int64_t constant);
  bool stored_plan_holds();
  void load_initial_weights();
  void take_from(const WeightsRecipe& weights);

  RunState restored_state();
  void check_classes();
  void begin_files(const RunState& state);
  std::unique_ptr<TelemetrySampler> start_telemetry(const RunState& state);
  std::unique_ptr<Deputy> make_deputy(const RunState& state);
  void train(Reached& reached);
  Summary summarise(const Reached& reached, RunStatus status, ExitCode code, const std::string& error);
  DeviceLost with_last_checkpoint(const DeviceLost& error) const;
  void write_end(const Summary& summary);

  const LivingRun living_ = {};
  std::optional<ProcessSettings> settings_;  // the run's; nothing before its first call
  Recipe recipe_;
  TrainerOptions options_;
  std::shared_ptr<Ranks> ranks_;
  std::vector<std::string> hosts_;  // of the ranks, in their order; empty: there is but one
  CheckedObserver observer_;
  Build build_;
  const at::Generator generator_;  // of the CPU
  std::unique_ptr<Workbench> bench_;
  std::optional<Place> place_;
  std::optional<BatchPlan> plan_;
  bool fitted_ = false;
  bool weights_loaded_ = false;        // the initial ones
  std::vector<std::string> changed_;   // since the checkpoint that it resumed from
  std::optional<Position> ended_;      // where `fit` came to
  const RunState* running_ = nullptr;  // while it trains
  std::vector<torch::Tensor> last_;    // the model's tensors then, once it was given others, and the task's
};

}  // namespace autotrain
