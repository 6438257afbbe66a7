#pragma once

#include <array>

#include "autotrain/recipe.h"
#include "base/enum_names.h"

namespace autotrain {

constexpr auto enum_names(Precision) {
  using P = Precision;
  return std::array{EnumName<P>{P::kAuto, "auto"}, EnumName<P>{P::kFp32, "fp32"},
                    EnumName<P>{P::kTf32, "tf32"}, EnumName<P>{P::kBf16, "bf16"},
                    EnumName<P>{P::kFp16, "fp16"}, EnumName<P>{P::kInt8, "int8"}};
}

constexpr auto enum_names(MemoryFormat) {
  using F = MemoryFormat;
  return std::array{EnumName<F>{F::kAuto, "auto"}, EnumName<F>{F::kContiguous, "contiguous"},
                    EnumName<F>{F::kChannelsLast, "channels_last"}};
}

constexpr auto enum_names(SweepMode) {
  return std::array{EnumName<SweepMode>{SweepMode::kInference, "inference"},
                    EnumName<SweepMode>{SweepMode::kTraining, "training"}};
}

constexpr auto enum_names(BatchRule) {
  return std::array{EnumName<BatchRule>{BatchRule::kNone, "none"},
                    EnumName<BatchRule>{BatchRule::kSeesaw, "seesaw"}};
}

constexpr auto enum_names(BatchAdapt) {
  return std::array{EnumName<BatchAdapt>{BatchAdapt::kNone, "none"},
                    EnumName<BatchAdapt>{BatchAdapt::kNoise, "noise"}};
}

constexpr auto enum_names(Cut) {
  return std::array{EnumName<Cut>{Cut::kEven, "even"}, EnumName<Cut>{Cut::kFull, "full"}};
}

constexpr auto enum_names(Pivot) {
  return std::array{EnumName<Pivot>{Pivot::kInterpolate, "interpolate"},
                    EnumName<Pivot>{Pivot::kMidpoint, "midpoint"}};
}

constexpr auto enum_names(Recovery) {
  return std::array{EnumName<Recovery>{Recovery::kShrink, "shrink"},
                    EnumName<Recovery>{Recovery::kStop, "stop"}};
}

constexpr auto enum_names(Unmatched) {
  return std::array{EnumName<Unmatched>{Unmatched::kFail, "fail"},
                    EnumName<Unmatched>{Unmatched::kKeep, "keep"}};
}

constexpr auto enum_names(Sharding) {
  return std::array{EnumName<Sharding>{Sharding::kNone, "none"},
                    EnumName<Sharding>{Sharding::kOptimizer, "optimizer"}};
}

constexpr auto enum_names(Statistics) {
  using S = Statistics;
  return std::array{EnumName<S>{S::kAuto, "auto"}, EnumName<S>{S::kOn, "on"}, EnumName<S>{S::kOff, "off"}};
}

constexpr auto enum_names(CudaGraphs) {
  using G = CudaGraphs;
  return std::array{EnumName<G>{G::kAuto, "auto"}, EnumName<G>{G::kOn, "on"}, EnumName<G>{G::kOff, "off"}};
}

constexpr auto enum_names(Recompute) {
  return std::array{EnumName<Recompute>{Recompute::kOff, "off"}, EnumName<Recompute>{Recompute::kOn, "on"},
                    EnumName<Recompute>{Recompute::kAuto, "auto"}};
}

constexpr auto enum_names(RequeueSignal) {
  using S = RequeueSignal;
  return std::array{EnumName<S>{S::kNone, "none"}, EnumName<S>{S::kUsr1, "SIGUSR1"},
                    EnumName<S>{S::kUsr2, "SIGUSR2"}};
}

constexpr auto enum_names(Preload) {
  return std::array{EnumName<Preload>{Preload::kAuto, "auto"}, EnumName<Preload>{Preload::kOff, "off"},
                    EnumName<Preload>{Preload::kRam, "ram"}, EnumName<Preload>{Preload::kDevice, "device"}};
}

constexpr auto enum_names(BadSamples) {
  return std::array{EnumName<BadSamples>{BadSamples::kFail, "fail"},
                    EnumName<BadSamples>{BadSamples::kSkip, "skip"}};
}

constexpr auto enum_names(DivergencePolicy) {
  using P = DivergencePolicy;
  return std::array{EnumName<P>{P::kSkip, "skip"}, EnumName<P>{P::kStop, "stop"},
                    EnumName<P>{P::kRollback, "rollback"}};
}

}  // namespace autotrain
