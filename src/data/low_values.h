#pragma once

#include <cstdint>
#include <string>

#include "data/look.h"

namespace autotrain {

/// Doubts images of bytes whose values use a small part of 0 to 255, such as masks of 0 and 1: each is
/// divided by 255, which leaves next to nothing to learn from.
/// @param largest value of all that were seen; 0: they say nothing.
/// @param otherwise what else helps there: ", or as bool"; "": nothing.
void doubt_low_values(int64_t largest, const std::string& place, const std::string& otherwise,
                      DataLook& look);

/// Doubts numbers to be predicted that are large, or that differ by little of what they are: a model's
/// outputs begin near 0, and must come there step by step.
void doubt_large_targets(double least, double most, const std::string& place, DataLook& look);

}  // namespace autotrain
