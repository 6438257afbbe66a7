#pragma once

#include <cstdint>
#include <functional>

#include "autotrain/data.h"

namespace autotrain {

/// Calls `visit` with all samples in their order, `at_once` of them at a time, as an epoch has them that
/// nothing augments; ends where it returns false.
void for_each_batch(const Dataset& data, int64_t at_once,
                    const std::function<bool(const Batch& batch)>& visit);

}  // namespace autotrain
