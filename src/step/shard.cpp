#include "step/shard.h"

#include "autotrain/error.h"

namespace autotrain {

Shard::Shard(Optimizer& optimizer, const FlatLayout& layout, Exchange& exchange,
             std::vector<torch::Tensor> buffers)
    : optimizer_(optimizer), layout_(layout), exchange_(exchange), buffers_(std::move(buffers)) {
  check_invariant(buffers_.size() >= optimizer.states().size(), "each state of a parameter has a buffer");
}

void Shard::spread_parameters() {
  const torch::NoGradGuard no_gradients;
  const torch::Tensor& flat = buffers_[0];
  for (const TensorPiece& own : optimizer_.pieces())
    layout_.view(flat, own).copy_(elements_of(layout_.tensors()[own.tensor].tensor, own));
  exchange_.spread(flat);
  for (size_t i = 0; i < layout_.tensors().size(); ++i)
    layout_.tensors()[i].tensor.detach().copy_(layout_.view(flat, i));
}

std::vector<NamedTensor> Shard::state() const {
  std::vector<NamedTensor> all = optimizer_.scalars();
  for (size_t s = 0; s < optimizer_.states().size(); ++s) {
    for (size_t i = 0; i < layout_.tensors().size(); ++i)
      all.push_back({optimizer_.states()[s].name_for(layout_.tensors()[i]), layout_.view(buffers_[s], i)});
  }
  return all;
}

void Shard::gather_state() {
  const torch::NoGradGuard no_gradients;
  for (size_t s = 0; s < optimizer_.states().size(); ++s) {
    for (size_t own = 0; own < optimizer_.pieces().size(); ++own)
      layout_.view(buffers_[s], optimizer_.pieces()[own]).copy_(optimizer_.states()[s].tensors[own]);
    exchange_.spread(buffers_[s]);
  }
}

void Shard::take_state() {
  const torch::NoGradGuard no_gradients;
  for (size_t s = 0; s < optimizer_.states().size(); ++s) {
    exchange_.copy_from_first(buffers_[s]);
    for (size_t own = 0; own < optimizer_.pieces().size(); ++own)
      optimizer_.states()[s].tensors[own].copy_(layout_.view(buffers_[s], optimizer_.pieces()[own]));
  }
}

}  // namespace autotrain
