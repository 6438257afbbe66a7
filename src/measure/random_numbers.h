#pragma once

#include <torch/types.h>

#include "device/device.h"

namespace autotrain {

/// Normally distributed numbers on the device to measure it with: on constants it is faster than it ever is
/// in use, since bits that never change cost no power. The same ones each time, from a generator of their
/// own, and a million of them over and over, which costs next to nothing.
torch::Tensor random_numbers(const Device& device, torch::ScalarType type, at::IntArrayRef shape);

}  // namespace autotrain
