#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "autotrain/recipe.h"
#include "sweep/serving.h"

namespace autotrain {

/// Measures how long batches of 1, 2, 4, … and `most` samples take, one after the other and with nothing
/// beside them: loading, copying, forward pass and output, the median of each. For a process of its own.
/// @param servers that share the threads: it is measured with the threads of one of them.
/// @throws Error(kDoesNotFit) when memory does not suffice; as the data are loaded.
nlohmann::ordered_json measure_service_times(const Recipe& recipe, int64_t most, int64_t servers);

/// Serves requests that arrive at these times. Every size of batch that may come runs once before, and the
/// first `warm_up` requests do not count. For a process of its own. @throws likewise.
nlohmann::ordered_json measure_serving(const Recipe& recipe, const Serving& serving,
                                       const std::vector<double>& arrivals, size_t warm_up);

}  // namespace autotrain
