#pragma once

#include "data/datasets.h"

namespace autotrain {

/// What arrays hold: shapes, types, ranges, how often each class stands there; and what is doubted: classes
/// that nothing has, numbers that are none, samples of the training data among those of the validation data.
void look_at_npy(const LookRequest& request, DataLook& look);

}  // namespace autotrain
