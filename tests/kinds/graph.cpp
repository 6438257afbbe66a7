#include "kinds/kind.h"

namespace kinds::graph {
namespace {

// program: graphs of different size; nodes, edges and offsets are shared by the batch
struct Graphs final : Dataset {
  int64_t size() const override { return 100; }
  static int64_t nodes_of(int64_t graph) { return 2 + graph % 5; }
  // A ring of nodes; the target is the mean of their first features.
  Batch get(c10::ArrayRef<int64_t> indices, const SampleRandom&) const override {
    std::vector<torch::Tensor> nodes, edges, means;
    std::vector<int64_t> graph_of;
    for (const int64_t graph : indices) {
      const int64_t count = nodes_of(graph), first = std::ssize(graph_of);
      nodes.push_back(numbers({count, 3}, static_cast<uint64_t>(graph)));
      const torch::Tensor from = torch::arange(count);
      edges.push_back(torch::stack({from, (from + 1).remainder(count)}) + first);
      means.push_back(nodes.back().select(1, 0).mean());
      graph_of.insert(graph_of.end(), static_cast<size_t>(count), std::ssize(means) - 1);
    }
    return {.inputs = torch::tensor(indices, torch::kInt64),
            .targets = torch::stack(means),
            .samples = std::ssize(indices),
            .shared = {{"nodes", torch::cat(nodes)},
                       {"edges", torch::cat(edges, 1)},
                       {"graph_of", torch::tensor(graph_of)}}};
  }
};

struct GraphNet final : PartsTask {
  LossTerms loss(const Batch& batch) override {
    const torch::Tensor &nodes = batch.shared_tensor("nodes"), &edges = batch.shared_tensor("edges");
    const torch::Tensor hidden = torch::tanh(embed->forward(nodes));
    const torch::Tensor met =
        torch::zeros_like(hidden).index_add(0, edges[1], hidden.index_select(0, edges[0]));
    const torch::Tensor graphs =
        torch::zeros({batch.samples, 8}).index_add(0, batch.shared_tensor("graph_of"), hidden + met);
    return {(read->forward(graphs).squeeze(1) - batch.targets).square().sum(), count(batch)};
  }

  Layers embed = add("embed", layers({3, 8})), read = add("read", layers({8, 1}));
};

Program make() {
  return {.task = std::make_unique<GraphNet>(), .data = std::make_shared<Graphs>()};
}

// by hand
void by_hand(Program& program) {
  auto& task = dynamic_cast<GraphNet&>(*program.task);
  torch::optim::Adam adam(task.module().parameters(), 0.01);
  train(program, adam, [&](const Batch& batch) { return task.loss(batch).sum / kBatch; });
}

const Register kind({.name = "graphs", .file = __FILE__, .make = make, .by_hand = by_hand});

}  // namespace
}  // namespace kinds::graph
