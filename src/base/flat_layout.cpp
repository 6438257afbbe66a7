#include "base/flat_layout.h"

#include <algorithm>

#include "base/units.h"

namespace autotrain {
namespace {

constexpr int64_t kLine = 16;  // elements of four bytes in a cache line

}  // namespace

torch::Tensor elements_of(const torch::Tensor& tensor, const TensorPiece& piece) {
  return tensor.as_strided({piece.count}, {1}, tensor.storage_offset() + piece.first);
}

FlatLayout::FlatLayout(std::vector<NamedTensor> tensors, int64_t parts)
    : tensors_(std::move(tensors)), parts_(parts) {
  for (const NamedTensor& each : tensors_) {
    begins_.push_back(elements_);
    elements_ += round_up(each.tensor.numel(), kLine);
  }
  elements_ = round_up(elements_, kLine * parts);
}

torch::Tensor FlatLayout::view(const torch::Tensor& flat, size_t i) const {
  const torch::Tensor& tensor = tensors_[i].tensor;
  return tensor.is_non_overlapping_and_dense()
             ? flat.as_strided(tensor.sizes(), tensor.strides(), begins_[i])
             : flat.narrow(0, begins_[i], tensor.numel()).view(tensor.sizes());
}

torch::Tensor FlatLayout::view(const torch::Tensor& flat, const TensorPiece& piece) const {
  return flat.narrow(0, begins_[piece.tensor] + piece.first, piece.count);
}

std::vector<TensorPiece> FlatLayout::pieces_of(int64_t part) const {
  const int64_t begin = part * (elements_ / parts_), end = begin + elements_ / parts_;
  std::vector<TensorPiece> pieces;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const int64_t first = std::max(begin, begins_[i]);
    const int64_t last = std::min(end, begins_[i] + tensors_[i].tensor.numel());
    if (first < last) pieces.push_back({i, first - begins_[i], last - first});
  }
  return pieces;
}

}  // namespace autotrain
