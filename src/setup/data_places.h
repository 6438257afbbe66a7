#pragma once

#include "autotrain/recipe.h"
#include "data/datasets.h"

namespace autotrain {

/// The data sets of a recipe, each with what the rest of the recipe says about how its files are read: the
/// loss says what targets are, and every set is read as the training data are. The recipe must outlive a
/// place.
DatasetPlace training_place(const Recipe& recipe);

/// Without augmentation. Precondition: the recipe has validation data.
DatasetPlace validation_place(const Recipe& recipe);

/// @throws Error(kBadRecipe) when the recipe's test data are its validation data, by which one chooses.
void check_test_data(const Recipe& recipe);

/// Likewise. Precondition: the recipe has test data.
DatasetPlace test_place(const Recipe& recipe);

}  // namespace autotrain
