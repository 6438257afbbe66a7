#pragma once

#include <torch/types.h>

#include <vector>

#include "autotrain/named_tensor.h"

namespace autotrain {

/// Neighbouring elements of one tensor of several, in the order in which they lie in memory.
struct TensorPiece {
  size_t tensor = 0;
  int64_t first = 0;
  int64_t count = 0;
};

/// The elements of `tensor` that the piece names, as a tensor [count] that shares its memory. Precondition:
/// `tensor` is dense.
torch::Tensor elements_of(const torch::Tensor& tensor, const TensorPiece& piece);

/// Says where the elements of tensors lie in one flat tensor of equal parts: one tensor lies behind the
/// other, each at a multiple of 64 bytes, since kernels read whole cache lines.
class FlatLayout {
 public:
  /// @param parts that the flat tensor can be divided into, each of whole cache lines.
  explicit FlatLayout(std::vector<NamedTensor> tensors, int64_t parts = 1);

  /// How many elements the flat tensor has, gaps included.
  int64_t elements() const { return elements_; }
  const std::vector<NamedTensor>& tensors() const { return tensors_; }

  /// The place of tensor `i` in `flat`, as a tensor of its shape that shares the memory of `flat`: with its
  /// strides too, for kernels that walk both at once, unless it is a view of something larger.
  torch::Tensor view(const torch::Tensor& flat, size_t i) const;

  /// The place of a piece in `flat`. [count]
  torch::Tensor view(const torch::Tensor& flat, const TensorPiece& piece) const;

  /// The pieces that lie in part `part`; a tensor has at most one there.
  std::vector<TensorPiece> pieces_of(int64_t part) const;

 private:
  std::vector<NamedTensor> tensors_;
  std::vector<int64_t> begins_;
  int64_t parts_;
  int64_t elements_ = 0;
};

}  // namespace autotrain
