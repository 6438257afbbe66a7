#include <nlohmann/json.hpp>

#include "fuzz.h"
#include "model/graph_reader.h"

// The graph of a model file. What is read holds together: no value is used before it is made.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace autotrain;
  const auto json = nlohmann::ordered_json::parse(data, data + size, nullptr, /*allow_exceptions=*/false);
  for (const bool training : {true, false}) {
    try {
      const graph::Given given{.parameters = 1,
                               .buffers = training ? 1U : 0U,
                               .constants = training ? 0U : 1U,
                               .loss = json.is_object() && json.contains("loss"),
                               .training = training};
      const graph::Graph graph = graph::read_graph(json, given, training ? 2 : 0);
      size_t made = given.count_in_forward() + (training ? 1 : 0);
      for (const graph::Node& node : graph.nodes) {
        for (const graph::Argument& argument : node.arguments) {
          argument.for_each_value([&](size_t value) {
            if (value >= made) __builtin_trap();
          });
        }
        for (const auto& result : node.results) {
          if (result && *result != made++) __builtin_trap();
        }
      }
      if (made != graph.values || graph.output >= made || graph.prediction_beside.value_or(0) >= made)
        __builtin_trap();
    } catch (const graph::Malformed&) {
    } catch (const nlohmann::json::exception&) {}
  }
  return 0;
}
