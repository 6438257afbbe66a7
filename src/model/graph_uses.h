#pragma once

#include <vector>

#include "model/graph_nodes.h"

namespace autotrain::graph {

/// Notes at each node the values that no later one uses, whether the backward pass needs the output, when
/// gradients are ready, and what may be kept for the backward pass in a smaller form.
void find_last_uses(Graph& graph);

/// The graph without what only serves gradients that nobody wants: their values are not computed, and what
/// was kept for them is freed in the forward pass. What is left computes the same bits.
/// @param wanted for each of the graph's gradients.
Graph without_gradients(const Graph& graph, const std::vector<bool>& wanted);

/// The graph that makes nothing but what is predicted beside a loss. Precondition: there is such a
/// prediction.
Graph prediction_alone(const Graph& graph);

/// Calls `use` with the number of every value that the node takes.
template <class Use>
void for_each_value(const Node& node, Use use) {
  for (const Argument& argument : node.arguments) argument.for_each_value(use);
}

/// Whether an operator takes the value.
bool uses(const Graph& graph, size_t value);

}  // namespace autotrain::graph
