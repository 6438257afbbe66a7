#pragma once

#include <string>
#include <vector>

#include "compare/comparison.h"

namespace autotrain {

/// What one axis of a grid, or what is left, has to do with the compared figure.
struct KeyEffect {
  std::string path = {};       ///< "": what is left: axes together, or the seeds
  std::string what = {};       ///< in words
  double share = 0;            ///< of the variance of all runs
  double least = 0, most = 0;  ///< the lowest and the highest mean of a value; NaN: it has no values
};

/// How much of the variance of the compared figure at equal samples each axis of a grid accounts for: the
/// analysis of variance of a balanced design, in which main effects, interactions and seeds add up to 1.
/// @return nothing where it is no grid, not all of its points were trained, or a run has no value.
std::vector<KeyEffect> key_effects(const Comparison& comparison);

}  // namespace autotrain
