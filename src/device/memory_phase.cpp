#include "device/memory_phase.h"

#include <atomic>

namespace autotrain {
namespace {

thread_local MemoryPhase current_phase = MemoryPhase::kOther;
thread_local bool thread_has_phases = false;
std::atomic<MemoryPhase> last_phase = MemoryPhase::kOther;

}  // namespace

PhaseScope::PhaseScope(MemoryPhase phase) : before_(current_phase) {
  current_phase = phase;
  thread_has_phases = true;
  last_phase.store(phase, std::memory_order_relaxed);
}

PhaseScope::~PhaseScope() {
  current_phase = before_;
}

MemoryPhase PhaseScope::current() {
  return thread_has_phases ? current_phase : last_phase.load(std::memory_order_relaxed);
}

}  // namespace autotrain
