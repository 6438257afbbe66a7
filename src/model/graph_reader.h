#pragma once

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "model/graph_nodes.h"

namespace autotrain::graph {

/// Says what is wrong with a graph, and names the operator and its argument.
struct Malformed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Checks everything that can be before an operator runs: which operators there are, the number and types of
/// their arguments, the order of values, and that nothing writes to parameters, constants or inputs.
/// @param gradients how many a graph for training returns.
/// @throws Malformed, nlohmann::json::exception.
Graph read_graph(const nlohmann::ordered_json& json, const Given& given, size_t gradients);

/// The type that a file names. @throws Malformed.
torch::ScalarType dtype_named(const std::string& name);

}  // namespace autotrain::graph
