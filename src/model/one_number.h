#pragma once

#include <ATen/core/Tensor.h>

/// Data sets have one number of a sample as a row of one, so that a batch of them is [n, 1]. Modules of
/// others take such numbers, and predict them, as [n], too.
namespace autotrain {

/// [n] as [n, 1]; other tensors as they are.
inline torch::Tensor in_rows(const torch::Tensor& numbers) {
  return numbers.defined() && numbers.dim() == 1 ? numbers.unsqueeze(1) : numbers;
}

/// Whether samples of the shape [1] stand for the numbers that are taken.
inline bool are_rows_of_one(c10::IntArrayRef taken, c10::IntArrayRef given) {
  return taken.empty() && given == c10::IntArrayRef{1};
}

/// [n, 1] as [n] where samples of the shape `taken` are; other tensors as they are.
inline torch::Tensor out_of_rows(const torch::Tensor& given, c10::IntArrayRef taken) {
  return given.defined() && given.dim() == 2 && are_rows_of_one(taken, given.sizes().slice(1))
             ? given.select(1, 0)
             : given;
}

}  // namespace autotrain
