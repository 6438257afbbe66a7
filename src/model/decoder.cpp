#include "model/decoder.h"

#include <ATen/TensorIndexing.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

namespace autotrain {

KeyValueCache::KeyValueCache(const CacheShape& shape, const torch::TensorOptions& options) : shape_(shape) {
  for (std::vector<torch::Tensor>* const each : {&keys_, &values_}) {
    for (int64_t layer = 0; layer < shape.layers; ++layer)
      each->push_back(at::zeros({shape.sequences, shape.kv_heads, shape.context, shape.head_size}, options));
  }
}

int64_t KeyValueCache::bytes() const {
  int64_t bytes = 0;
  for (const std::vector<torch::Tensor>* const each : {&keys_, &values_}) {
    for (const torch::Tensor& tensor : *each) bytes += static_cast<int64_t>(tensor.nbytes());
  }
  return bytes;
}

void KeyValueCache::copy(int64_t from, int64_t to, int64_t tokens) {
  for (const std::vector<torch::Tensor>* const each : {&keys_, &values_}) {
    for (const torch::Tensor& tensor : *each)
      tensor[to].narrow(1, 0, tokens).copy_(tensor[from].narrow(1, 0, tokens));
  }
}

CachePlace::CachePlace(const std::vector<int64_t>& positions, torch::Device device)
    : positions_(at::tensor(positions, torch::kInt64).to(device)) {
  const auto [shortest, longest] = std::ranges::minmax(positions);
  longest_ = longest + 1;
  if (shortest == longest) return;
  sequences_ = at::arange(std::ssize(positions), positions_.options());
  mask_ = at::arange(longest_, positions_.options()).view({1, 1, 1, -1}) <= positions_.view({-1, 1, 1, 1});
}

torch::Tensor CachePlace::add(const torch::Tensor& cache, const torch::Tensor& rows) const {
  torch::Tensor seen = cache.narrow(0, 0, rows.size(0)).narrow(2, 0, longest_);
  if (mask_.defined()) {
    seen.index_put_({sequences_, at::indexing::Slice(), positions_}, rows.select(2, 0));
  } else {
    seen.narrow(2, longest_ - 1, 1).copy_(rows);
  }
  return seen;
}

}  // namespace autotrain
