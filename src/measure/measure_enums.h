#pragma once

#include <array>

#include "autotrain/operator_counts.h"
#include "base/enum_names.h"
#include "measure/timing.h"

namespace autotrain {

constexpr auto enum_names(OperatorKind) {
  using K = OperatorKind;
  return std::array{EnumName<K>{K::kLinear, "linear"}, EnumName<K>{K::kConvolution, "convolution"},
                    EnumName<K>{K::kMatrixProduct, "matrix_product"}, EnumName<K>{K::kAttention, "attention"},
                    EnumName<K>{K::kOther, "other"}};
}

constexpr auto enum_names(RepeatEnd) {
  using E = RepeatEnd;
  return std::array{EnumName<E>{E::kNarrow, "narrow"}, EnumName<E>{E::kSeconds, "seconds"},
                    EnumName<E>{E::kRepeats, "repeats"}};
}

}  // namespace autotrain
