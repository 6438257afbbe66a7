#include "model/graph_uses.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "model/graph_kept.h"

namespace autotrain::graph {
namespace {

std::vector<bool> used_at_the_end(const Graph& graph) {
  std::vector<bool> used(graph.values);
  for (const auto& gradient : graph.gradients) {
    if (gradient) used[*gradient] = true;
  }
  if (graph.prediction_beside) used[*graph.prediction_beside] = true;
  return used;
}

// What becomes of nodes that write, but to nothing that is taken afterwards.
enum class UnreadWrites { kStay, kGo };

// Whether each node is needed for what is wanted. What draws is, since others draw after it; what writes to
// something that is given is, and so may be what writes to anything else.
std::vector<bool> needed_nodes(const Graph& graph, UnreadWrites unread) {
  std::vector<bool> used = used_at_the_end(graph), needed(graph.nodes.size());
  std::set<size_t> read;  // memory
  const auto use = [&](size_t value) {
    used[value] = true;
    read.insert(graph.memory[value]);
  };
  for (size_t value = 0; value < used.size(); ++value) {
    if (used[value] || value == graph.output || value < graph.given.count_in_forward()) use(value);
  }
  const auto has_effect = [&](const Node& node) {
    if (!node.has_effect || node.draws || node.writes.empty() || unread == UnreadWrites::kStay)
      return node.has_effect;
    return std::ranges::any_of(node.writes, [&](size_t value) { return read.contains(graph.memory[value]); });
  };
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = graph.nodes[i];
    needed[i] = has_effect(node) || std::ranges::any_of(node.results, [&](const auto& result) {
                  return result && used[*result];
                });
    if (needed[i]) for_each_value(node, use);
  }
  return needed;
}

Graph without_unneeded(Graph graph, UnreadWrites unread) {
  const std::vector<bool> needed = needed_nodes(graph, unread);
  const std::vector<Node> nodes = std::exchange(graph.nodes, {});
  const size_t backward_begin = std::exchange(graph.backward_begin, 0);
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!needed[i]) continue;
    graph.nodes.push_back(nodes[i]);
    if (i < backward_begin) ++graph.backward_begin;
  }
  find_last_uses(graph);
  return graph;
}

// Gradients that share memory with something are ready when nothing touches that any more.
void find_ready_gradients(Graph& graph) {
  std::map<size_t, size_t> end;  // by memory
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    for_each_value(graph.nodes[i], [&](size_t value) { end[graph.memory[value]] = i + 1; });
    for (const auto& result : graph.nodes[i].results) {
      if (result) end[graph.memory[*result]] = i + 1;
    }
  }
  graph.ready.clear();
  for (size_t number = 0; number < graph.gradients.size(); ++number) {
    const auto& value = graph.gradients[number];
    const auto found = value ? end.find(graph.memory[*value]) : end.end();
    graph.ready.push_back({number, std::max(graph.backward_begin, found == end.end() ? 0 : found->second)});
  }
  // Equal values lie side by side.
  std::ranges::sort(graph.ready, {}, [&](const ReadyGradient& each) {
    return std::tuple(each.end, graph.gradients[each.number], each.number);
  });
}

}  // namespace

void find_last_uses(Graph& graph) {
  std::vector<bool> used = used_at_the_end(graph);
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    Node* const node = &graph.nodes[i];
    if (i + 1 == graph.backward_begin) {
      graph.keeps_output = used[graph.output];
      used[graph.output] = true;  // it is taken out between the two halves
    }
    const auto use = [&](size_t value) {
      if (used[value]) return;
      used[value] = true;
      node->last_uses.push_back(value);
    };
    node->last_uses.clear();
    for_each_value(*node, use);
    for (const auto& result : node->results) {
      if (result) use(*result);
    }
  }
  find_ready_gradients(graph);
  find_kept_values(graph);
}

Graph without_gradients(const Graph& graph, const std::vector<bool>& wanted) {
  Graph rest = graph;
  for (size_t i = 0; i < rest.gradients.size(); ++i) {
    if (!wanted[i]) rest.gradients[i].reset();
  }
  return without_unneeded(std::move(rest), UnreadWrites::kStay);
}

Graph prediction_alone(const Graph& graph) {
  Graph rest = graph;
  rest.output = *std::exchange(rest.prediction_beside, std::nullopt);
  return without_unneeded(std::move(rest), UnreadWrites::kGo);
}

bool uses(const Graph& graph, size_t value) {
  bool used = false;
  for (const Node& node : graph.nodes) for_each_value(node, [&](size_t each) { used |= each == value; });
  return used;
}

}  // namespace autotrain::graph
