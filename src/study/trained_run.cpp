#include "study/trained_run.h"

#include <algorithm>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "autotrain/trainer.h"
#include "base/json.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/finite_weights.h"
#include "checkpoint/safetensors.h"
#include "model/experts.h"
#include "model/initial_weights.h"
#include "plan/plan_json.h"
#include "recipe/compare.h"
#include "state/resume.h"
#include "state/snapshot.h"
#include "step/precision.h"
#include "trainer/run_report.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

// The best checkpoint is what the run's summary says, or the newest checkpoint of one that has not ended.
int64_t best_update(const fs::path& folder, const CheckpointFolder& checkpoints) {
  if (fs::exists(folder / "summary.json")) {
    const nlohmann::ordered_json summary = read_json(folder / "summary.json");
    const nlohmann::ordered_json& best = part_in(summary, "best");
    if (best.contains("update")) return count_in(best, "update");
  } else if (const auto newest = checkpoints.read_newest_state()) {
    const int64_t best = saved_run(newest->second).state.position.best_update;
    if (best >= 0) return best;
  }
  throw Error(ExitCode::kMissingFile, folder.string(),
              "has no best checkpoint: no evaluation of it has been the best",
              "give newest or the number of an update");
}

// The checkpoint that is asked for.
int64_t update_asked(const RunChoice& choice, const CheckpointFolder& checkpoints) {
  const std::vector<int64_t> updates = checkpoints.updates();
  if (choice.checkpoint == "newest") {
    const auto newest = checkpoints.read_newest_state();
    if (newest) return newest->first;
    throw Error(ExitCode::kMissingFile, choice.folder.string(), "holds no checkpoint",
                "name the folder of a run that has one");
  }
  int64_t update = -1;
  if (choice.checkpoint == "best") {
    update = best_update(choice.folder, checkpoints);
  } else if (!parse_integer(choice.checkpoint, update)) {
    throw Error(ExitCode::kUsage, "--checkpoint", quote(choice.checkpoint) + " is no checkpoint",
                "give newest, best or the number of an update");
  }
  if (std::ranges::find(updates, update) != updates.end()) return update;
  std::vector<std::string> names;
  for (const int64_t each : updates) names.push_back(std::to_string(each));
  throw Error(ExitCode::kMissingFile, choice.folder.string(), cat("has no checkpoint of update ", update),
              names.empty() ? "it has none" : "it has those of updates " + join(names, ", "));
}

BatchPlan plan_of(const fs::path& run) {
  const fs::path file = run / "plan.json";
  if (!fs::exists(file))
    throw Error(ExitCode::kMissingFile, file.string(), "is not there",
                "name the folder of a run whose plan was found, or copy all of its files");
  try {
    return plan_from_json(read_json(file));
  } catch (const nlohmann::json::exception&) {
    throw Error(ExitCode::kBadData, file.string(), "is damaged or of another version",
                "use the version that trained it");
  }
}

// What --set makes of the run that was trained. The weights that training begins with are no others to use.
void check_overrides(const RunChoice& choice, const Recipe& trained, const Recipe& now) {
  if (choice.weights.empty() && now.weights.file && !trained.weights.file)
    throw Error(ExitCode::kUsage, "--set model.weights",
                "names what training begins with, and this run has weights of its own",
                cat("give --weights ", *now.weights.file, " to use that file in their place"));
  if (const auto others = changes_of_meaning(trained, now); !others.empty())
    log::warn("model", cat("the model is set to be another than the run's, in which its weights meant "
                           "something else: ",
                           describe(others), ". Try: the keys that it was trained with"));
}

// The run's recipe with what is overridden; --weights stand in the place of the file that training began
// with, and of what was said of that.
Recipe recipe_of(const RunChoice& choice, const std::vector<std::string>& overrides) {
  const fs::path file = choice.folder / "recipe.yaml";
  std::vector<std::string> all = overrides;
  if (!choice.weights.empty()) all.insert(all.begin(), "model.weights=replaced-below");
  Recipe recipe = load_recipe(file, all);
  if (!overrides.empty()) check_overrides(choice, load_recipe(file, {}), recipe);
  if (choice.weights.empty()) return recipe;
  if (recipe.weights.missing != Unmatched::kFail || recipe.weights.shapes != Unmatched::kFail)
    throw Error(ExitCode::kUsage, "--weights",
                "is to hold all of the model: what is drawn has learned nothing",
                "leave model.weights.missing and model.weights.shapes out");
  recipe.weights.file = choice.weights.string();  // from which the model takes its shape, too
  recipe.lora = {};                               // such files have adapters merged
  return recipe;
}

}  // namespace

Recipe TrainedRun::as_planned() const {
  Recipe planned = recipe;
  planned.execution.precision = plan.precision;
  planned.execution.memory_format = plan.memory_format;
  planned.execution.loader.preload = Preload::kOff;
  planned.data.test.reset();  // which is read where it is asked for
  return planned;
}

TrainedRun open_trained_run(const RunChoice& choice, const std::vector<std::string>& overrides) {
  if (!is_run_folder(choice.folder)) {
    throw Error(ExitCode::kMissingFile, choice.folder.string(), "holds no run",
                "name the folder of a run: it has recipe.yaml, plan.json and metrics.jsonl");
  }
  TrainedRun run{
      .folder = choice.folder, .recipe = recipe_of(choice, overrides), .plan = plan_of(choice.folder)};
  const CheckpointFolder checkpoints(choice.folder / "checkpoints");
  if (run.recipe.execution.precision != Precision::kAuto) {  // the plan's, unless --set says another
    check_trains(run.recipe.execution.precision);
    run.plan.precision = run.recipe.execution.precision;
  }
  run.update = update_asked(choice, checkpoints);
  run.checkpoint = checkpoints.path_of(run.update);
  if (choice.weights.empty()) return run;
  if (!fs::exists(choice.weights)) {
    throw Error(ExitCode::kMissingFile, choice.weights.string(), "is not there",
                "give --weights a file of autotrain export or autotrain compress");
  }
  run.weights = choice.weights;
  return run;
}

void load_evaluated_weights(const TrainedRun& run, const torch::nn::Module& module) {
  const auto* const mixture = dynamic_cast<const Mixture*>(&module);
  if (mixture != nullptr && mixture->expert_options().experts > 0 &&
      mixture->expert_options().experts_choose) {
    log::warn("model",
              "experts choose among the tokens of a whole batch (routing: experts_choose): what is predicted "
              "of a sample depends on those beside it, and figures on the batch");
  }
  if (!run.weights.empty()) {
    log::info("model", cat(run.weights.string(), ": ", describe(take_weights(run.recipe.weights, module))));
    return;
  }
  const CheckpointFolder checkpoints(run.checkpoint.parent_path());
  check_model_file(saved_run(checkpoints.read_state(run.update)).identity, module);
  read_safetensors_into(evaluated_weights(run.checkpoint), model_tensors(module),
                        "these weights are of another model than the recipe's");
  check_finite_parameters(module, run.checkpoint.string());
}

}  // namespace autotrain
