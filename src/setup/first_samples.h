#pragma once

#include <optional>

#include "autotrain/data.h"
#include "device/device.h"

namespace autotrain {

/// The first samples of the training data, on the device: few, but sixteen of small ones. Nothing when they
/// cannot be read: whoever needs them says why.
std::optional<Batch> first_samples(Device& device, const Dataset& train);

}  // namespace autotrain
