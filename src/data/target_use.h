#pragma once

#include <cstdint>
#include <optional>

namespace autotrain {

/// What the run's loss makes of targets, for data whose files leave it open.
struct TargetUse {
  enum class Kind { kUnknown, kClasses, kLabels, kNumbers };
  Kind kind = Kind::kUnknown;           ///< the loss does not say
  std::optional<int64_t> ignored = {};  ///< a target of this value counts for nothing: it is no class
  bool one_a_sample = false;            ///< the model predicts one class, or one row of numbers, for a sample
};

}  // namespace autotrain
