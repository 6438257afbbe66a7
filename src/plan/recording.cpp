// Whether a run replays recorded kernels.
#include "autotrain/log.h"
#include "base/text.h"
#include "base/units.h"
#include "data/cost_order.h"
#include "device/failure.h"
#include "model/losses.h"
#include "plan/plan_enums.h"
#include "plan/planner.h"
#include "plan/recorded_windows.h"
#include "step/own_code.h"

namespace autotrain {

std::string why_not_recorded(const Workbench& bench) {
  if (bench.device->make_recorder() == nullptr) return "this device records nothing";
  if (bench.task->makes_passes()) return "the task makes its passes itself";
  if (bench.step.options().input_scale.active())
    return "inputs have several sizes (data.augment.multi_scale)";
  if (!bench.step.can_record()) return "updates of several lanes or ranks are not recorded";
  if (has_costs(*bench.data.train)) return "samples differ in length, and so do micro-batches in shape";
  return "";
}

namespace {

// A model or a loss that a program adds to recipes is its own code too.
bool knows_the_code(const Recipe& recipe, const Workbench& bench) {
  return bench.data.from_recipe && !runs_own_code(bench.task->module()) &&
         !find_loss(recipe.loss.name).is_users_own;
}

// From so long on, the launches of a micro-batch's kernels, thousands of some microseconds each, are hidden
// by it.
constexpr double kLongPassSeconds = 0.1;

}  // namespace

// The size is decided already, so that no bit of the run depends on how fast anything was.
void Planner::decide_recording(BatchPlan& plan) {
  const CudaGraphs asked = request_.recipe.execution.cuda_graphs;
  if (asked == CudaGraphs::kOff || (asked == CudaGraphs::kAuto && bench_.device->torch_device().is_cpu()))
    return;
  const bool always = asked == CudaGraphs::kOn;
  plan.cuda_graphs_why = why_not_recorded(bench_);
  if (plan.cuda_graphs_why.empty()) plan.cuda_graphs = try_recorded(plan, always);
  const std::string line = cat("CUDA graphs: ", plan.cuda_graphs ? "" : "no; ", plan.cuda_graphs_why);
  always && !plan.cuda_graphs ? log::warn("plan", line) : log::info("plan", line);
}

bool Planner::try_recorded(BatchPlan& plan, bool always) {
  const TrialShape shape = shape_for(plan.micro_batch);
  const ProbeRecord* const executed = find_size(search_->history(), plan.micro_batch);
  const double rate = executed != nullptr ? executed->pass_samples_per_second : 0;
  if (const double seconds = rate > 0 ? static_cast<double>(plan.micro_batch) / rate : 0;
      !always && seconds > kLongPassSeconds) {
    plan.cuda_graphs_why =
        cat("launches hide behind the device's work: a micro-batch takes ", brief(1e3 * seconds, 3), " ms");
    return false;
  }
  try {
    begin_trial(bench_.device->memory());
    const RecordedWindows windows = measure_recorded(bench_, probe_.load_window(shape), always,
                                                     always || knows_the_code(request_.recipe, bench_));
    plan.cuda_graphs_why = windows.refused;
    if (!windows.refused.empty()) return false;
    const double gain = windows.launched_seconds / windows.replayed_seconds;
    plan.cuda_graphs_why = cat("an update takes ", brief(1e3 * windows.replayed_seconds, 3),
                               " ms with them, ", brief(1e3 * windows.launched_seconds, 3), " without");
    constexpr double kWorthwhile = 1.02;
    if (!always && gain < kWorthwhile) return false;
  } catch (const std::exception& error) {
    if (classify_failure(error) == Failure::kOther) throw;
    plan.cuda_graphs_why = cat("memory does not suffice: ", first_line(error));
    return false;
  }
  probe_.record_with([this] { return bench_.device->make_recorder(); });
  const ProbeRecord record = probe_.run(shape, [](const ProbeRecord&) { return true; });
  if (!record.confirmed || (!record.fits() && !always) || record.fill > 1) {
    plan.cuda_graphs_why += cat("; but with their memory it does not fit: ", in_words(record.outcome));
    return false;
  }
  if (plan.typical_fill == plan.fill) plan.typical_fill = record.fill;
  plan.peak_bytes = record.peak_bytes;
  plan.fill = record.fill;
  plan.samples_per_second = record.samples_per_second;
  return true;
}

}  // namespace autotrain
