#pragma once

#include "autotrain/plan.h"
#include "autotrain/recipe.h"
#include "plan/workbench.h"

namespace autotrain {

// What of a recipe can be checked only beside its data, its model or its plan. Each throws Error(kBadRecipe)
// naming the key.

/// Refuses what waits for evaluations where there are no validation data.
/// Keys for a model, a loss and data that the recipe names, and which a task of the caller's own never reads.
/// @throws Error(kBadRecipe) naming the first that is not left at its default.
void check_keys_of_own_task(const Recipe& recipe);

/// Likewise, keys of an optimizer where the program brings its own.
void check_keys_of_own_optimizers(const Recipe& recipe);

void check_evaluations(const Recipe& recipe, const Workbench& bench);

/// Refuses figures that no evaluation will measure. One small evaluation tells which there are, before hours
/// are spent.
void check_figures(const Recipe& recipe, Workbench& bench);

/// Refuses training or validation data none of whose targets counts, where a look at the targets tells: at
/// the first that do, and at no more than 64 MiB of samples.
void check_targets(const Recipe& recipe, const Workbench& bench);

/// Warns of figures that the validation targets leave undefined.
void tell_undefined_figures(const Recipe& recipe, const Workbench& bench);

/// Warns of metrics that were asked for and that these classes are too few for.
void tell_unmeasured_metrics(const Recipe& recipe, Workbench& bench);

/// Warns of keys that change nothing: of those beside which another leaves nothing to do, of what follows
/// evaluations where the run ends before one, and of a warm-up, or an average of weights, that is too long
/// for the run to come out of it.
void tell_unreached(const Recipe& recipe, const Workbench& bench, const BatchPlan& plan);

/// Refuses metrics that keep more of the validation data than there is memory for.
void check_gathered(const Recipe& recipe, Workbench& bench);

/// Refuses a plan by which batch normalisation would see a single sample, or by which nothing could be said
/// of the noise of gradients that was asked for.
void check_plan(const Recipe& recipe, const Workbench& bench, const BatchPlan& plan);

}  // namespace autotrain
