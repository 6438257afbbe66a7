#pragma once

#include <nlohmann/json.hpp>

#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "device/cpu_meter.h"
#include "model/graph_pass.h"

namespace autotrain::test {

/// Of a pass, that computing again may take.
constexpr double kAnyShare = std::numeric_limits<double>::infinity();

/// What the exporter writes for a value, and for an operator.
inline nlohmann::ordered_json value(int64_t number) {
  return {{"v", number}};
}

inline nlohmann::ordered_json node(const std::string& op, const std::string& overload,
                                   nlohmann::ordered_json arguments, nlohmann::ordered_json results) {
  return {{"op", op}, {"overload", overload}, {"args", std::move(arguments)}, {"out", std::move(results)}};
}

inline std::shared_ptr<const graph::Graph> shared(graph::Graph graph) {
  return std::make_shared<const graph::Graph>(std::move(graph));
}

struct Differentiated {
  torch::Tensor output;
  std::vector<torch::Tensor> gradients = {};
  int64_t kept_bytes = 0;  ///< between the two halves, the output left out
  int64_t peak_bytes = 0;  ///< the most that tensors held in the second
};

struct PassWays {
  graph::GraphCosts* costs = nullptr;  ///< to measure
  bool as_made = false;                ///< nothing is kept in a smaller form
};

/// A pass with the same random numbers each time.
inline Differentiated differentiated(const graph::Graph& graph, const std::vector<torch::Tensor>& given,
                                     const torch::Tensor& cotangent, PassWays ways = {}) {
  torch::manual_seed(1);
  CpuMeter meter;
  graph::Pass pass(shared(graph), given);
  pass.measure_into(ways.costs);
  if (ways.as_made) pass.keep_as_made();
  Differentiated result{.output = pass.forward()};
  result.kept_bytes = meter.allocated_bytes() - static_cast<int64_t>(result.output.nbytes());
  meter.reset_peak();
  result.gradients = pass.backward(cotangent);
  result.peak_bytes = meter.peak().allocated_bytes;
  return result;
}

}  // namespace autotrain::test
