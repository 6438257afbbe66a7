#pragma once

#include <memory>
#include <optional>

#include "autotrain/error.h"
#include "autotrain/trainer.h"
#include "trainer/parts.h"
#include "trainer/resume.h"
#include "trainer/run_folder.h"
#include "trainer/run_state.h"
#include "trainer/telemetry_sampler.h"
#include "trainer/training_loop.h"

namespace autotrain {

/// What a Trainer does: the parts of one run and the order in which they are used.
class Trainer::Run {
 public:
  Run(Recipe recipe, std::unique_ptr<Device> device, RunData data, std::unique_ptr<Task> task,
      TrainerOptions options);

  const BatchPlan& plan();
  std::vector<std::string> figure_names();
  Summary fit();

  Callbacks callbacks;
  Task& task() { return *parts_.task; }

 private:
  void open_folder();
  void resume();
  BatchPlan make_plan();
  bool stored_plan_holds() const;
  void check_monitor();
  void load_initial_weights();
  void check_last_window() const;
  void announce();
  void start_telemetry();
  void train(Summary& summary);
  void describe_end(Summary& summary) const;
  void draw_report() const;
  void write_summary(Summary& summary, const std::string& status, ExitCode code, const std::string& error);

  Recipe recipe_;
  TrainerOptions options_;
  RunObserver& observer_;
  Parts parts_;
  std::unique_ptr<RunFolder> folder_;
  std::optional<ResumePoint> resume_point_;
  std::optional<BatchPlan> plan_;
  RunState state_;
  std::unique_ptr<TelemetrySampler> telemetry_;  // null: none is taken
};

}  // namespace autotrain
