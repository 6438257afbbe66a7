#pragma once

#include "optim/optimizer.h"

namespace autotrain {

/// A key for how much of a running mean is kept at each update.
KeySpec decay_key(const char* name, const char* sentence, double fallback);

/// beta1, beta2 and epsilon.
std::vector<KeySpec> adam_keys(double epsilon = 1e-8);

/// Whether parameters of fewer than two dimensions are adapted too.
KeySpec adapt_all_key();

}  // namespace autotrain
