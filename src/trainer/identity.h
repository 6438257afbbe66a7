#pragma once

#include <map>
#include <string>

#include "autotrain/plan.h"
#include "device/device.h"

namespace autotrain {

/// What the bits of a run depend on beside its recipe: names of facts and their values.
using Identity = std::map<std::string, std::string>;

Identity identity_of(const Device& device, const BatchPlan& plan);

/// Whether a continuation under `now` of a run under `before` gives the same bits: "exact", or "equal to
/// rounding, because …".
std::string exactness(const Identity& before, const Identity& now);

}  // namespace autotrain
