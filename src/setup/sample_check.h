#pragma once

#include "plan/workbench.h"

namespace autotrain {

/// Evaluates one sample of validation and test data whose samples have another size than the training data's,
/// and the shortest of data whose samples differ in length: some models take any size, and whether this one
/// does is known by trying. Leaves no trace. Not checked where there is too little memory.
/// @throws Error(kBadRecipe) naming the key when the model does not take them.
void check_other_samples(Workbench& bench);

}  // namespace autotrain
