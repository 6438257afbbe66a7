#include "trainer/session.h"

#include <algorithm>

namespace autotrain {
namespace {

constexpr double kMemorySampleSeconds = 0.1;

}  // namespace

void Session::sample_memory() {
  last_memory_sample = steady_seconds();
  MemoryMeter& memory = bench.device->memory();
  memory.sample_outside_bytes();
  state.totals.peak_bytes = std::max(state.totals.peak_bytes, memory.peak().total_bytes());
}

void Session::sample_memory_sometimes() {
  if (steady_seconds() - last_memory_sample >= kMemorySampleSeconds) sample_memory();
}

}  // namespace autotrain
