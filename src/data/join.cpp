#include "data/join.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace autotrain {
namespace {

// Whether rows of both tensors lie alike in memory, each densely.
bool alike(const torch::Tensor& a, const torch::Tensor& b) {
  if (a.defined() != b.defined()) return false;
  if (!a.defined()) return true;
  return a.scalar_type() == b.scalar_type() && a.dim() == b.dim() && a.is_non_overlapping_and_dense() &&
         b.is_non_overlapping_and_dense() && a.sizes().slice(1) == b.sizes().slice(1) &&
         a.strides().slice(1) == b.strides().slice(1);
}

bool alike(const Batch& a, const Batch& b) {
  if (!a.shared.empty() || !b.shared.empty()) return false;
  return alike(a.inputs, b.inputs) && alike(a.targets, b.targets) &&
         std::ranges::equal(a.more_inputs, b.more_inputs,
                            [](const auto& one, const auto& other) { return alike(one, other); });
}

// Room for `samples` rows that lie as those of `part` do.
torch::Tensor room_for(int64_t samples, const torch::Tensor& part) {
  std::vector<int64_t> sizes = part.sizes().vec(), strides = part.strides().vec();
  sizes[0] = samples;
  // The first stride of a single row says nothing.
  strides[0] = std::accumulate(sizes.begin() + 1, sizes.end(), int64_t{1}, [](int64_t product, int64_t size) {
    return product * std::max<int64_t>(1, size);
  });
  return torch::empty_strided(sizes, strides, part.options());
}

}  // namespace

std::optional<Batch> joined(const std::vector<Batch>& parts) {
  const Batch& first = parts.front();
  if (!std::ranges::all_of(parts, [&](const Batch& part) { return alike(first, part); })) return std::nullopt;
  if (parts.size() == 1) return first;
  int64_t samples = 0;
  for (const Batch& part : parts) samples += part.samples;
  Batch whole = first.with_each([&](const torch::Tensor& part) { return room_for(samples, part); });
  whole.samples = samples;
  int64_t done = 0;
  for (const Batch& part : parts) {
    const Batch room = rows_of(whole, done, part.samples);
    const std::vector<torch::Tensor> to = room.tensors(), from = part.tensors();
    for (size_t i = 0; i < to.size(); ++i) to[i].copy_(from[i]);
    done += part.samples;
  }
  return whole;
}

Batch rows_of(const Batch& batch, int64_t first, int64_t count) {
  Batch rows =
      batch.with_each_of_samples([&](const torch::Tensor& all) { return all.narrow(0, first, count); });
  rows.samples = count;
  return rows;
}

Batch pinned(const Batch& batch) {
  return batch.with_each(
      [](const torch::Tensor& tensor) { return tensor.is_cpu() ? tensor.pin_memory() : tensor; });
}

int64_t bytes_of(const Batch& batch) {
  return bytes_of(batch.tensors());
}

int64_t bytes_of(const std::vector<torch::Tensor>& tensors) {
  size_t bytes = 0;
  for (const torch::Tensor& tensor : tensors) bytes += tensor.nbytes();
  return static_cast<int64_t>(bytes);
}

}  // namespace autotrain
