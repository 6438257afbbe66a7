#pragma once

#include <optional>
#include <string>
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

/// All that decides what the figures of evaluations mean: two that were found under one such text compare.
std::string terms_of_best(const Recipe& recipe);

/// Makes the state of a checkpoint one of this recipe, where it differs by no more than the places in which
/// the data and the model's files lie: files and folders that hold what the run began with are the same
/// wherever they are, of data if their fingerprints are of all bytes.
void follow_data(SavedRun& saved, const Recipe& now);

/// The keys of a model that make something else of the same weights. Those that give no tensor another shape,
/// such as a transformer's heads, nothing else would tell.
/// @param weights the recipe by which they were trained.
std::vector<KeyDifference> changes_of_meaning(const Recipe& weights, const Recipe& now);

/// Warns where the first weights are a checkpoint's whose model had other keys. Precondition: the recipe
/// names a file of weights.
void tell_other_model(const Recipe& recipe);

/// The keys of the recipe whose values are others than when the checkpoint was written, by their paths.
std::vector<KeyDifference> changes_of_recipe(const SavedRun& saved, const Recipe& now);

/// What rank 0 tells the others of it; null: nothing.
nlohmann::ordered_json resume_to_json(const std::optional<ResumePoint>& point);
std::optional<ResumePoint> resume_from_json(const nlohmann::ordered_json& json);

/// The newest whole checkpoint of the folder, checked against the recipe, whose data it follows; nothing when
/// there is none.
/// @throws Error(kBadRecipe) when the recipe changes what is learned and `allow_change` is false;
/// Error(kBadData) when its state is none that a run can have, or is not of the update in its folder's name.
std::optional<ResumePoint> find_resume_point(const RunFolder& folder, const Recipe& recipe,
                                             bool allow_change);

}  // namespace autotrain
