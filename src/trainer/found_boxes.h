#pragma once

#include <filesystem>

#include "autotrain/recipe.h"
#include "plan/workbench.h"

namespace autotrain {

/// Writes kClassesFile where the data set names its classes.
void write_class_names(const Dataset& data, const std::filesystem::path& run);

/// Whether a run's evaluations find boxes in images, so that they can be drawn.
bool finds_boxes(const Workbench& bench, const Recipe& recipe);

/// Draws some validation images with their boxes and those that the weights of the bench find, into the
/// folder kFoundBoxesFolder of a run. In the precision of the run, at most `at_once` images at a time. A run
/// does not depend on its pictures: that they cannot be drawn is a warning. Precondition: finds_boxes.
void try_to_draw_boxes(Workbench& bench, int64_t at_once, int64_t update, const std::filesystem::path& run);

}  // namespace autotrain
