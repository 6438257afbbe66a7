#pragma once

#include <array>

#include "autotrain/report.h"
#include "base/enum_names.h"

namespace autotrain {

constexpr auto enum_names(EventKind) {
  using K = EventKind;
  return std::array{EnumName<K>{K::kSkipped, "skipped"},
                    EnumName<K>{K::kOutOfMemory, "out_of_memory"},
                    EnumName<K>{K::kPlan, "plan"},
                    EnumName<K>{K::kRollback, "rollback"},
                    EnumName<K>{K::kBadSample, "bad_sample"},
                    EnumName<K>{K::kBatch, "batch"},
                    EnumName<K>{K::kResumed, "resumed"}};
}

constexpr auto enum_names(RunStatus) {
  using S = RunStatus;
  return std::array{EnumName<S>{S::kCompleted, "completed"}, EnumName<S>{S::kInterrupted, "interrupted"},
                    EnumName<S>{S::kFailed, "failed"}};
}

constexpr auto enum_names(StopReason) {
  using R = StopReason;
  return std::array{EnumName<R>{R::kNone, ""},
                    EnumName<R>{R::kEpochs, "epochs"},
                    EnumName<R>{R::kUpdates, "updates"},
                    EnumName<R>{R::kSamples, "samples"},
                    EnumName<R>{R::kMinutes, "minutes"},
                    EnumName<R>{R::kPatience, "patience"},
                    EnumName<R>{R::kCallback, "callback"},
                    EnumName<R>{R::kSignal, "signal"},
                    EnumName<R>{R::kError, "error"}};
}

}  // namespace autotrain
