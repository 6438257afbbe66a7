#pragma once

#include <string>
#include <vector>

#include "study/trained_run.h"

namespace autotrain {

/// Refuses to read a table for a trained run by another training file than it was trained with: columns,
/// categories, means and classes of all its data are those of that file's rows.
/// @throws Error(kBadData) naming the file.
void check_training_file(const TrainedRun& run);

/// Refuses training data whose classes have other names, or numbers, than those that the run learned; images
/// that were merely added change nothing. @param class_names of the training data as they are now.
/// @throws Error(kBadData) naming the classes.
void check_classes(const TrainedRun& run, std::vector<std::string> class_names);

}  // namespace autotrain
