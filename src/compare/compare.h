#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compare/comparison.h"
#include "compare/named_recipe.h"
#include "study/halving.h"
#include "study/study.h"

namespace autotrain {

/// The least difference that matters.
struct Margin {
  double value = 0;      ///< above 0, in the figure's own measure, or
  bool percent = false;  ///< in percent of a share
};

/// In the figure's own measure. @throws Error(kUsage) where two readings are possible: 0.3 of a share.
double margin_in(const Margin& margin, const FigureKind& kind, const std::string& figure);

struct CompareOptions {
  std::vector<NamedRecipe> recipes;
  int64_t seeds = 3;        ///< each recipe is trained with 1, 2, …, in place of its own seed
  std::string figure = "";  ///< to compare; "": the target's, else what the first recipe monitors
  std::optional<Target> target = {};
  bool paired = false;                                ///< tests in pairs of the same seed
  std::optional<Margin> margin = {};                  ///< also tests whether recipes are the same within it
  int64_t first_seed = 1;                             ///< the seeds are this and those that follow
  std::vector<std::pair<size_t, size_t>> pairs = {};  ///< of recipes to test; empty: all
  std::vector<DifferingKey> axes = {};  ///< of the grid whose points the recipes are; empty: they are none
  bool training_set = false;            ///< also evaluate the final weights on the training data
  bool reads_test = false;              ///< in the end, for the best, the recipes' test data
  bool sharpness = false;               ///< also measure how sharp the minimum of the final weights is

  /// Leaves recipes out as soon as short runs tell that others are better, by the compared figure's median
  /// over the seeds; those that are left are compared. Unset: every recipe has its whole run.
  std::optional<HalvingRules> halving = {};
  std::optional<Tuning> tuned = {};  ///< how the recipes came to their values; unset: as they were written
  std::string command = {};          ///< that asked for it, for its report
  int64_t ranks = 1;                 ///< processes that make each run together
  std::filesystem::path folder;  ///< gets compare.json, compare.csv, report.html and `runs/<label>-seed<k>`
  std::function<void(const StudyProgress&)> on_progress = [](const StudyProgress&) {};

  /// After each run, kept ones included. @param kept it was finished before.
  std::function<void(const RunOutcome&, bool kept)> on_outcome = [](const RunOutcome&, bool) {};
};

/// Trains every recipe with every seed, each run in a process of its own, interleaved, and compares; the
/// files in the folder tell after each run what is known by then. The same call goes on where an earlier one
/// stopped; more seeds or recipes add to what is there. Each recipe's micro-batch is searched once, before
/// anything is trained and in a process of its own; its runs take it over.
/// @throws Error as run_study does, and Error(kBadRecipe, kUsage) when a recipe is not evaluated or does not
/// have the figure.
Comparison compare(const CompareOptions& options);

/// How many rows of on_outcome a comparison comes to if nothing fails: one for each run, or with halving one
/// for each rung of it.
size_t planned_outcomes(const CompareOptions& options);

/// What `compare` refuses before it trains anything. @throws Error(kBadRecipe, kUsage).
void check_comparison(const CompareOptions& options);

/// Whether the first recipe's evaluations have the figures that the comparison is about, which only opening
/// it can tell. `compare` asks after each recipe's search; this is for whoever does long work before. It
/// computes, so nothing can be searched or trained in the same process afterwards.
/// @throws Error as opening the recipe does, and Error(kUsage).
void check_figures(const CompareOptions& options);

/// Every pair of some recipes, in their order.
std::vector<std::pair<size_t, size_t>> all_pairs(const std::vector<size_t>& recipes);

/// What is known of a figure. @param option by which it was asked for. @param who measures the others.
/// @throws Error(kUsage) when it is not among them.
const FigureKind& measured_kind(const FigureKinds& kinds, const std::string& figure, const char* option,
                                const std::string& who);

/// The figure that differences will be about.
std::string compared_figure(const CompareOptions& options);

}  // namespace autotrain
