#pragma once

#include <torch/types.h>

#include <cstdint>
#include <string>

namespace autotrain {

/// Images as a person looks at them.
struct Pictures {
  torch::Tensor pixels = {};       ///< [n, 3, H, W] uint8
  double least = 0, greatest = 0;  ///< inputs that are black and white
};

/// Makes images as large as a person can see: pixels are repeated until the longer side has `least_side`, so
/// that they stay what they are, and images of more than 256 are averaged.
/// @param inputs [n, C, H, W] of any numbers: one channel is grey, of more than three the first three are
/// drawn.
Pictures pictures_of(const torch::Tensor& inputs, int64_t least_side = 64);

/// A PNG file's bytes. @param pixels [H, W, 3] uint8, contiguous.
std::string png_of(const torch::Tensor& pixels);

}  // namespace autotrain
