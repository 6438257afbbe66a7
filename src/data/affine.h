#pragma once

namespace autotrain {

/// What makes (x ÷ 255 − mean) ÷ deviation of a value x in [0, 255]: x × scale + shift.
struct Affine {
  Affine(double mean, double deviation)
      : scale(static_cast<float>(1 / (255 * deviation))), shift(static_cast<float>(-mean / deviation)) {}
  float scale, shift;
};

}  // namespace autotrain
