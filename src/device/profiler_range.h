#pragma once

#include <string_view>

namespace autotrain {

/// Names what this thread asks of the GPU from here on, for Nsight Systems; nothing without a profiler.
/// @param name a literal.
void push_profiler_range(std::string_view name);
void pop_profiler_range();

}  // namespace autotrain
