#include "state/resume.h"

#include <algorithm>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "base/text.h"
#include "recipe/compare.h"
#include "recipe/load.h"
#include "state/catalog.h"

namespace autotrain {
namespace {

Recipe stored_recipe(const SavedRun& saved) {
  // The stored text is resolved: it names no variable that could have changed.
  return load_recipe_text(saved.recipe, "the checkpoint's recipe", catalog());
}

}  // namespace

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
  ResumePoint point{newest->first, saved_run(newest->second)};
  const auto differences = differing_keys(stored_recipe(point.saved), recipe, catalog());
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
