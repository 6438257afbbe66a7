#include <nvtx3/nvToolsExt.h>

#include "device/profiler_range.h"

namespace autotrain {

void push_profiler_range(std::string_view name) {
  nvtxRangePushA(name.data());
}

void pop_profiler_range() {
  nvtxRangePop();
}

}  // namespace autotrain
