#include "device/memory_phase.h"

namespace autotrain {
namespace {

thread_local MemoryPhase current_phase = MemoryPhase::kOther;

}  // namespace

PhaseScope::PhaseScope(MemoryPhase phase) : before_(current_phase) {
  current_phase = phase;
}

PhaseScope::~PhaseScope() {
  current_phase = before_;
}

MemoryPhase PhaseScope::current() {
  return current_phase;
}

}  // namespace autotrain
