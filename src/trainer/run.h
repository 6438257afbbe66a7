#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "autotrain/error.h"
#include "autotrain/trainer.h"
#include "trainer/parts.h"
#include "trainer/resume.h"
#include "trainer/run_folder.h"
#include "trainer/run_state.h"
#include "trainer/telemetry_sampler.h"
#include "trainer/training_loop.h"
#include "trainer/users_code.h"

namespace autotrain {

/// What a Trainer does: the parts of one run and the order in which they are used.
class Trainer::Run {
 public:
  /// A run of the caller's own task and data. It never searches apart: another process could not make them.
  static std::unique_ptr<Run> of_task(Recipe recipe, std::unique_ptr<Task> task, RunData data,
                                      TrainerOptions options);

  /// A run of what the recipe names. With `options.search_apart` nothing is made before it is needed.
  static std::unique_ptr<Run> of_recipe(Recipe recipe, TrainerOptions options);

  const BatchPlan& plan();
  FigureKinds figure_kinds();
  Summary fit();

  Callbacks callbacks;
  Task& task() { return *parts().task; }

 private:
  /// Makes the parts, on a device whose budget is settled if a plan was made before.
  using Build =
      std::function<std::unique_ptr<Parts>(const Recipe& recipe, std::optional<ResolvedBudget> settled)>;

  Run(Recipe recipe, Build build, TrainerOptions options);
  Parts& parts();
  void open_folder();
  void resume();
  bool searches_apart() const;
  BatchPlan make_plan();
  BatchPlan search(const Recipe& recipe, std::vector<ProbeRecord> known, RunObserver& observer);
  bool stored_plan_holds();
  void check_monitor();
  void load_initial_weights();
  void check_last_window(const BatchPlan& plan);
  void announce();
  void start_telemetry();
  void train(Summary& summary);
  void describe_end(Summary& summary);
  void draw_report() const;
  void write_summary(Summary& summary, const std::string& status, ExitCode code, const std::string& error);

  Recipe recipe_;
  TrainerOptions options_;
  CheckedObserver observer_;
  Build build_;
  std::unique_ptr<Parts> parts_;  // null: not needed yet
  std::unique_ptr<RunFolder> folder_;
  std::optional<ResumePoint> resume_point_;
  std::optional<BatchPlan> plan_;
  bool weights_loaded_ = false;  // the initial ones
  RunState state_;
  std::unique_ptr<TelemetrySampler> telemetry_;  // null: none is taken
};

}  // namespace autotrain
