#pragma once

#include <array>
#include <cstdint>

#include "base/enum_names.h"

namespace autotrain {

/// What a run is doing while it allocates; a post-mortem groups live memory by it.
enum class MemoryPhase : uint8_t {
  kOther,
  kData,
  kModel,
  kOptimizer,
  kForward,
  kBackward,
  kUpdate,
  kEvaluation,
  kCheckpoint,
  kBufferCopies,
};

constexpr auto enum_names(MemoryPhase) {
  using P = MemoryPhase;
  return std::array{
      EnumName<P>{P::kOther, "other"},           EnumName<P>{P::kData, "data"},
      EnumName<P>{P::kModel, "model"},           EnumName<P>{P::kOptimizer, "optimizer state"},
      EnumName<P>{P::kForward, "forward"},       EnumName<P>{P::kBackward, "backward"},
      EnumName<P>{P::kUpdate, "update"},         EnumName<P>{P::kEvaluation, "evaluation"},
      EnumName<P>{P::kCheckpoint, "checkpoint"}, EnumName<P>{P::kBufferCopies, "copies of buffers"},
  };
}

constexpr size_t kMemoryPhases = 10;

/// The phase of this thread until the scope ends.
class PhaseScope {
 public:
  explicit PhaseScope(MemoryPhase phase);
  ~PhaseScope();
  PhaseScope(const PhaseScope&) = delete;
  PhaseScope& operator=(const PhaseScope&) = delete;

  /// The phase of this thread; in a thread that never opened a scope (autograd's, for CUDA), the one that was
  /// opened last anywhere.
  static MemoryPhase current();

 private:
  MemoryPhase before_;
};

}  // namespace autotrain
