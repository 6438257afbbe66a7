#pragma once

#include "device/caching_allocator.h"

namespace autotrain::test {

/// While it lives, an allocation of each of the next evaluations' or predictions' passes is refused, as many
/// as it is armed for.
class Refusals {
 public:
  explicit Refusals(int refusals = 0) : left_(refusals) {
    CachingAllocator::process_wide().set_fault([this](int64_t, MemoryPhase phase) {
      return phase == MemoryPhase::kEvaluation && left_ > 0 && left_-- > 0;
    });
  }
  ~Refusals() { CachingAllocator::process_wide().set_fault({}); }
  Refusals(const Refusals&) = delete;
  Refusals& operator=(const Refusals&) = delete;
  void arm(int refusals) { left_ = refusals; }

 private:
  int left_;
};

}  // namespace autotrain::test
