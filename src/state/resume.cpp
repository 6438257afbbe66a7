#include "state/resume.h"

#include <algorithm>
#include <filesystem>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "base/text.h"
#include "recipe/load.h"
#include "state/catalog.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

// A folder that was renamed would count as newer, or older, than the updates that it holds.
void check_number(const ResumePoint& point, const fs::path& file) {
  const int64_t updates = point.saved.state.position.updates;
  if (updates == point.update) return;
  throw Error(
      ExitCode::kBadData, file.string(),
      cat("updates is ", updates, ", and the checkpoint's folder is called ",
          file.parent_path().filename().string()),
      cat("give the folder its name back, update-", updates, ", or take it out of the run's checkpoints"));
}

}  // namespace

std::vector<KeyDifference> changes_of_recipe(const SavedRun& saved, const Recipe& now) {
  // The stored text is resolved: it names no variable that could have changed.
  const Recipe stored = load_recipe_text(saved.recipe, "the checkpoint's recipe", catalog());
  return differing_keys(stored, now, catalog());
}

nlohmann::ordered_json resume_to_json(const std::optional<ResumePoint>& point) {
  if (!point) return nullptr;
  return {{"update", point->update},
          {"state", state_to_json(point->saved)},
          {"same_recipe", point->same_recipe},
          {"keep_plan", point->keep_plan}};
}

std::optional<ResumePoint> resume_from_json(const nlohmann::ordered_json& json) {
  if (json.is_null()) return std::nullopt;
  return ResumePoint{json.at("update").get<int64_t>(), saved_run(json.at("state")),
                     json.at("same_recipe").get<bool>(), json.at("keep_plan").get<bool>()};
}

std::optional<ResumePoint> find_resume_point(const RunFolder& folder, const Recipe& recipe,
                                             bool allow_change) {
  const auto newest = folder.checkpoints().read_newest_state();
  if (!newest) {
    // Where there was a run before, what it did is lost; studies resume runs that have not begun.
    const bool was_begun = fs::exists(folder.path() / "metrics.jsonl");
    log::write(was_begun ? log::Level::kWarning : log::Level::kInfo, "trainer",
               cat("no checkpoint to resume in ", folder.path().string(), "; starting from the beginning"));
    return std::nullopt;
  }
  const fs::path file = folder.checkpoints().path_of(newest->first) / "state.json";
  ResumePoint point{newest->first, saved_run(newest->second, file.string())};
  check_number(point, file);
  const auto differences = changes_of_recipe(point.saved, recipe);
  std::vector<KeyDifference> learned;
  std::copy_if(differences.begin(), differences.end(), std::back_inserter(learned),
               [](const KeyDifference& d) { return decides_learning(d.decides); });
  if (!learned.empty() && !allow_change) {
    throw Error(ExitCode::kBadRecipe, folder.path().string(),
                "the recipe changes what is learned since the checkpoint\n  " + describe(learned),
                "resume with the recipe as it was, or give --allow-change to go on as the recipe says now");
  }
  if (!differences.empty()) log::warn("trainer", "resumed with changed keys: " + describe(differences));
  point.same_recipe = learned.empty();
  point.keep_plan = std::none_of(differences.begin(), differences.end(),
                                 [](const KeyDifference& d) { return decides_memory(d.decides); });
  return point;
}

}  // namespace autotrain
