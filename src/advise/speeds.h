#pragma once

#include <functional>
#include <vector>

#include "advise/batch_model.h"
#include "autotrain/recipe.h"

namespace autotrain {

/// Measures what an update of one micro-batch takes, for each size: real samples, held on the device, the
/// recipe's optimizer at a rate of 0. Rounds over all sizes, so that a machine that slows down does so for
/// all; the first round is not counted. This process computes with LibTorch from then on.
/// @param micro_batches ascending. One that memory or the model refuses is left out, and what is larger.
/// @param seconds for all of it; there are three rounds at least.
/// @param proceed called before each size with how many of the rounds' measurements are made.
/// @throws Error as loading and building do; Error(kInterrupted) after a signal.
std::vector<SpeedPoint> measure_speeds(
    Recipe recipe, std::vector<int64_t> micro_batches, double seconds,
    const std::function<void(int64_t measured)>& proceed = [](int64_t) {});

}  // namespace autotrain
