#include "step/graph_leaves.h"

#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <unordered_set>

namespace autotrain {

std::vector<torch::Tensor> graph_leaves(const torch::Tensor& result) {
  std::vector<torch::Tensor> leaves;
  std::vector<torch::autograd::Node*> left = {result.grad_fn().get()};
  std::unordered_set<torch::autograd::Node*> seen;
  while (!left.empty()) {
    auto* const node = left.back();
    left.pop_back();
    if (node == nullptr || !seen.insert(node).second) continue;
    const auto* const end = dynamic_cast<torch::autograd::AccumulateGrad*>(node);
    if (end != nullptr) leaves.push_back(end->variable);
    for (const torch::autograd::Edge& edge : node->next_edges()) left.push_back(edge.function.get());
  }
  return leaves;
}

}  // namespace autotrain
