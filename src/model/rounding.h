#pragma once

#include <torch/types.h>

#include <vector>

namespace autotrain {

// Weights in fewer numbers or bits, and back. A weight is [out, …], float32 and finite, on the CPU and not
// empty; everything behind the first dimension are the inputs of an output. Of experts, [experts, out, in],
// which are rounded as [experts · out, in], what is stored may have their shape: from_int8 and from_int4 go
// by how many scales there are.

/// Eight bits: weight ≈ scale · values, off by at most half a scale. The largest of an output becomes ±127.
struct Int8Weight {
  torch::Tensor values;  ///< int8, shaped as the weight
  torch::Tensor scale;   ///< [out] float32; of experts [experts, out]
};

Int8Weight to_int8(const torch::Tensor& weight);
torch::Tensor from_int8(const Int8Weight& stored);

/// Four bits, a scale for each group of inputs: weight ≈ scale · (value − 8), off by at most half a scale.
/// The largest of a group becomes ±7. The last group of an output is filled up with zeros.
struct Int4Weight {
  torch::Tensor values;        ///< uint8 [out, groups, group ÷ 2], of two inputs the first in the lower half
  torch::Tensor scale;         ///< [out, groups] float32
  std::vector<int64_t> shape;  ///< of the weight
};

/// @param group even.
Int4Weight to_int4(const torch::Tensor& weight, int64_t group);
torch::Tensor from_int4(const Int4Weight& stored);

/// The values alone, one a byte, from 1 to 15. [out, groups · group] uint8
torch::Tensor int4_values(const Int4Weight& stored);

/// Of every four consecutive inputs the two of largest magnitude; the others are zero ("2:4"). Of
/// convolutions consecutive inputs are channels at one pixel of the window.
struct SparseWeight {
  torch::Tensor values;        ///< [out, groups, 2]
  torch::Tensor places;        ///< uint8 [out, groups]: which of the four, the first + 4 · the second
  std::vector<int64_t> shape;  ///< of the weight
};

/// Whether a weight of this shape has groups of four consecutive inputs.
bool has_groups_of_four(c10::IntArrayRef shape);

/// Precondition: has_groups_of_four.
SparseWeight to_sparse(const torch::Tensor& weight);
torch::Tensor from_sparse(const SparseWeight& stored);

/// A bit for each weight of a mask, bool [out, …]: uint8 [out, ⌈inputs ÷ 8⌉], of eight inputs the first in
/// the lowest bit.
torch::Tensor to_bits(const torch::Tensor& mask);
torch::Tensor from_bits(const torch::Tensor& bits, c10::IntArrayRef shape);

}  // namespace autotrain
