#pragma once

#include <torch/types.h>

#include <memory>
#include <optional>
#include <vector>

#include "model/graph_kept.h"
#include "model/graph_nodes.h"

namespace autotrain::graph {

/// What a pass through a graph takes at one batch. The same figures each time: nothing is timed.
struct GraphCosts {
  explicit GraphCosts(const Graph& graph) : work(graph.nodes.size()), bytes(graph.values) {}
  /// By node: bytes that it reads and writes, or those that could be moved while it multiplies; infinite
  /// where it does neither, as far as is known.
  std::vector<double> work;
  std::vector<int64_t> bytes;  ///< by value: of the memory that it lies in, or that it is kept in
  double whole_work = 0;       ///< of all nodes, of which each at least moves what it takes and makes
};

/// One pass through a graph. Values are freed at their last use, as eager PyTorch frees them. What the
/// forward half keeps for the backward half takes less memory where that loses no bit, see KeptValues.
class Pass {
 public:
  /// @param tensors parameters, buffers, constants, inputs and targets, all on one device. Targets that the
  /// graph does not use may be undefined.
  Pass(std::shared_ptr<const Graph> graph, std::vector<torch::Tensor> tensors);

  /// The output, a tensor that the pass itself does not hold. Runs the operators before the first that needs
  /// its gradient.
  /// @throws c10::Error of an operator, which it names; c10::OutOfMemoryError when memory is refused.
  torch::Tensor forward();

  /// Has what its operators take measured, into where it adds nothing else; null: not any more.
  void measure_into(GraphCosts* costs) { costs_ = costs; }

  /// Has values kept as they were made: what tests compare with.
  void keep_as_made() { kept_.reset(); }

  /// What is predicted beside a loss; undefined where nothing is. Precondition: `forward` was called.
  torch::Tensor prediction_beside() const;

  /// Whether the backward half has begun.
  bool goes_back() const { return next_node_.has_value(); }

  /// Begins the backward half. Once, after `forward`.
  /// @param cotangent the gradient of the output: of its shape.
  void begin_backward(torch::Tensor cotangent);

  /// Runs the backward half until the next of the graph's `ready` gradients is, after the last one to its
  /// end, and lets go of that gradient; undefined where the parameter has none. Once for each of them.
  torch::Tensor next_gradient();

  /// All gradients of the parameters that learn, in their order, by the two above.
  std::vector<torch::Tensor> backward(torch::Tensor cotangent);

 private:
  void run(size_t begin, size_t end);
  void call(const Node& node, std::vector<c10::IValue>& stack);
  void measure(size_t number, std::vector<c10::IValue>& stack);
  c10::IValue value_of(const Argument& argument) const;
  void shrink(const Node& node);
  void take_results(const Node& node, std::vector<c10::IValue>& stack);

  std::shared_ptr<const Graph> graph_;
  torch::Device device_;
  std::vector<c10::IValue> values_;
  std::optional<KeptValues> kept_ = KeptValues();  // none: values are kept as they were made
  GraphCosts* costs_ = nullptr;
  std::optional<size_t> next_node_ = {};  // none: the backward half has not begun
  size_t next_gradient_ = 0;
};

}  // namespace autotrain::graph
