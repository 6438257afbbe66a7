#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "autotrain/plan.h"
#include "autotrain/recipe.h"
#include "compare/compare.h"
#include "state/branch.h"
#include "study/halving.h"
#include "study/study.h"

namespace autotrain {

/// A run of a comparison, or with halving one of its rungs.
struct RunOrder {
  std::string name;  ///< of its result
  std::string label;
  Recipe recipe;  ///< with its seed
  std::optional<BranchPoint> from = {};
  size_t point = 0;  ///< the number of the recipe
  size_t rung = 0;
  double share = 1;                               ///< of the whole run, when it is done
  double work = 1;                                ///< what it trains, likewise
  std::map<std::string, std::string> files = {};  ///< as RecipeFiles has them
  std::filesystem::path folder = {};
  std::string search = {};           ///< name of the recipe's search
  std::filesystem::path found = {};  ///< its result
  std::string twin = {};  ///< name of the run that computes the same: this one is not made; "": none
  bool training_set = false;
  bool sharpness = false;
  int64_t ranks = 1;
};

/// All runs of a comparison, interleaved, rung after rung; the last rung has the whole runs, and their names.
std::vector<RunOrder> orders_of(const CompareOptions& options, const Halving& halving);

/// Picks out what a comparison tells of a plan, whichever program made that.
nlohmann::ordered_json plan_in_brief(const BatchPlan& plan);

/// The search of each recipe's micro-batch, and then the runs, whose values are outcome_to_json's.
/// @param orders must outlive them.
std::vector<StudyRun> study_runs_of(const std::vector<RunOrder>& orders);

}  // namespace autotrain
