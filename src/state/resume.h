#pragma once

#include <optional>
#include <vector>

#include "autotrain/recipe.h"
#include "recipe/compare.h"
#include "state/run_folder.h"
#include "state/snapshot.h"

namespace autotrain {

/// A checkpoint that a run goes on from.
struct ResumePoint {
  int64_t update = 0;
  SavedRun saved;
  bool same_recipe = false;  ///< no key that changes what is learned has changed
  bool keep_plan = false;    ///< no key that the plan depends on has changed
};

/// The keys of the recipe whose values are others than when the checkpoint was written, by their paths.
std::vector<KeyDifference> changes_of_recipe(const SavedRun& saved, const Recipe& now);

/// What rank 0 tells the others of it; null: nothing.
nlohmann::ordered_json resume_to_json(const std::optional<ResumePoint>& point);
std::optional<ResumePoint> resume_from_json(const nlohmann::ordered_json& json);

/// The newest whole checkpoint of the folder, checked against the recipe; nothing when there is none.
/// @throws Error(kBadRecipe) when the recipe changes what is learned and `allow_change` is false;
/// Error(kBadData) when its state is none that a run can have, or is not of the update in its folder's name.
std::optional<ResumePoint> find_resume_point(const RunFolder& folder, const Recipe& recipe,
                                             bool allow_change);

}  // namespace autotrain
