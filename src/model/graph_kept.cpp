#include "model/graph_kept.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <utility>

#include "model/graph_uses.h"

namespace autotrain::graph {
namespace {

// Operators whose last result are places in their first argument. Those of the others that return one tensor
// alone return what lies there.
constexpr std::array<std::string_view, 15> kPointInto = {"aten::max_pool2d_with_indices",
                                                         "aten::max_pool3d_with_indices",
                                                         "aten::adaptive_max_pool2d",
                                                         "aten::adaptive_max_pool3d",
                                                         "aten::max",
                                                         "aten::min",
                                                         "aten::topk",
                                                         "aten::sort",
                                                         "aten::kthvalue",
                                                         "aten::median",
                                                         "aten::mode",
                                                         "aten::cummax",
                                                         "aten::cummin",
                                                         "aten::argmax",
                                                         "aten::argmin"};

std::optional<size_t> indices_of(const Node& node) {
  if (!node.op || node.results.empty() || node.arguments.empty()) return std::nullopt;
  const std::string& name = node.op->operator_name().name;
  const bool points = std::ranges::find(kPointInto, name) != kPointInto.end() &&
                      (node.results.size() == 2 || name.starts_with("aten::arg"));
  return points && node.arguments[0].kind == Argument::Kind::kValue ? node.results.back() : std::nullopt;
}

// How many places there are that such an operator chooses among: along its axis, on the planes that it pools,
// or else among all.
int64_t places_in(const Node& node, const torch::Tensor& tensor) {
  const std::vector<c10::Argument>& declared = node.op->schema().arguments();
  for (size_t i = 0; i < declared.size(); ++i) {
    const c10::IValue& given = node.arguments[i].literal;
    if (declared[i].name() == "dim" && given.isInt() && tensor.dim() > 0) return tensor.size(given.toInt());
  }
  const std::string& name = node.op->operator_name().name;
  const int64_t axes = name.find("pool2d") != std::string::npos   ? 2
                       : name.find("pool3d") != std::string::npos ? 3
                                                                  : tensor.dim();
  int64_t places = 1;
  for (int64_t axis = 1; axis <= axes; ++axis) places *= tensor.size(-axis);
  return places;
}

// Of the memory that values of the forward half lie in.
class ForwardHalf {
 public:
  explicit ForwardHalf(const Graph& graph) : graph_(graph), made_(graph.values) {
    for (size_t i = 0; i < graph.backward_begin; ++i) note(i);
    for (size_t value = 0; value < graph.given.count_in_forward(); ++value) fix(value);
    fix(graph.output);
    if (graph.prediction_beside) fix(*graph.prediction_beside);
    for (const auto& gradient : graph.gradients) {
      if (gradient) fix(*gradient);
    }
  }

  // Whether the value is made here, and nobody outside of the graph has its memory.
  bool has_alone(size_t value) const {
    return made_[value] && graph_.is_tensor[value] && !fixed_.contains(graph_.memory[value]);
  }

  size_t last_node(size_t value) const { return last_.at(graph_.memory[value]); }

  // Whether it is zeros and ones as they were drawn, divided by one number: what dropout multiplies by.
  bool drawn(size_t value) const { return drawn_.contains(graph_.memory[value]); }

 private:
  void fix(size_t value) { fixed_.insert(graph_.memory[value]); }

  void note(size_t number) {
    const Node& node = graph_.nodes[number];
    for_each_value(node, [&](size_t value) { last_[graph_.memory[value]] = number; });
    for (const auto& result : node.results) {
      if (!result) continue;
      made_[*result] = true;
      last_[graph_.memory[*result]] = number;
    }
    for (const size_t value : node.writes) note_write(node, graph_.memory[value]);
  }

  void note_write(const Node& node, size_t place) {
    const bool scales = node.name.starts_with("aten::div_.") || node.name.starts_with("aten::mul_.");
    if (node.name.starts_with("aten::bernoulli_.")) {
      drawn_.insert(place);
    } else if (!scales || takes_tensor(node.arguments[1])) {
      drawn_.erase(place);
    }
  }

  bool takes_tensor(const Argument& argument) const {
    bool takes = false;
    argument.for_each_value([&](size_t value) { takes |= graph_.is_tensor[value]; });
    return takes;
  }

  const Graph& graph_;
  std::vector<bool> made_;
  std::set<size_t> fixed_;
  std::set<size_t> drawn_;
  std::map<size_t, size_t> last_;  // by memory
};

// Whether nobody else holds the tensor or its memory: operators may return what they were given without
// saying so.
bool is_alone(const torch::Tensor& tensor) {
  return tensor.defined() && tensor.use_count() == 1 && tensor.storage().use_count() == 1;
}

}  // namespace

void find_kept_values(Graph& graph) {
  std::set<size_t> written;  // by memory: an index that is changed may lie beyond where it was chosen from
  for (const Node& node : graph.nodes) {
    for (const size_t value : node.writes) written.insert(graph.memory[value]);
  }
  for (Node& node : graph.nodes) {
    node.indices = indices_of(node);
    if (node.indices && written.contains(graph.memory[*node.indices])) node.indices.reset();
    node.shrinks.clear();
    node.restores.clear();
  }
  const ForwardHalf half(graph);
  struct Taken {
    size_t value, by;
    bool with_another;
  };
  std::map<size_t, Taken> taken;  // by memory
  for (size_t i = graph.backward_begin; i < graph.nodes.size(); ++i) {
    for_each_value(graph.nodes[i], [&](size_t value) {
      if (!half.has_alone(value)) return;
      const auto [found, is_new] = taken.try_emplace(graph.memory[value], Taken{value, i, false});
      found->second.with_another |= found->second.value != value;
    });
  }
  for (const auto& [place, each] : taken) {
    if (each.with_another) continue;
    graph.nodes[half.last_node(each.value)].shrinks.push_back({each.value, half.drawn(each.value)});
    graph.nodes[each.by].restores.push_back(each.value);
  }
}

void KeptValues::before(const Node& node, std::vector<c10::IValue>& values) {
  for (const size_t value : node.restores) {
    if (const auto found = forms_.find(value); found != forms_.end()) {
      values[value] = found->second.restored();
      forms_.erase(found);
    }
    if (const auto found = moved_.find(value); found != moved_.end()) {
      values[value] = main_memory_->back(*found->second);
      moved_.erase(found);
    }
  }
  if (node.indices) bounds_[*node.indices] = places_in(node, values[node.arguments[0].value].toTensor());
}

void KeptValues::after(const Node& node, std::vector<c10::IValue>& values, int64_t least_bytes) {
  for (const KeptValue& kept : node.shrinks) {
    c10::IValue& held = values[kept.value];
    if (!held.isTensor()) continue;
    const torch::Tensor tensor = std::move(held).toTensor();
    const bool alone = is_alone(tensor);
    auto form =
        alone && static_cast<int64_t>(tensor.nbytes()) >= least_bytes ? form_of(kept, tensor) : std::nullopt;
    if (form) {
      forms_.emplace(kept.value, *std::move(form));
    } else if (auto moved = alone && main_memory_ ? main_memory_->move(tensor) : nullptr) {
      moved_.emplace(kept.value, std::move(moved));
    } else {
      held = tensor;
    }
  }
}

std::optional<SmallForm> KeptValues::form_of(const KeptValue& kept, const torch::Tensor& tensor) const {
  if (tensor.scalar_type() == torch::kBool || kept.drawn) return SmallForm::of_two_values(tensor);
  const auto bound = bounds_.find(kept.value);
  if (bound == bounds_.end() || tensor.scalar_type() != torch::kInt64) return std::nullopt;
  return SmallForm::of_indices(tensor, bound->second);
}

std::optional<int64_t> KeptValues::bytes(size_t value) const {
  const auto found = forms_.find(value);
  return found == forms_.end() ? std::nullopt : std::optional(found->second.nbytes());
}

}  // namespace autotrain::graph
