#include "model/graph_pass.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <utility>

#include "autotrain/error.h"
#include "base/text.h"

namespace autotrain::graph {
namespace {

using c10::IValue;
using Kind = Argument::Kind;

int64_t floor_divided(int64_t a, int64_t b) {
  const int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

// As Python computes: quotients are rounded down, and a remainder has the sign of its divisor.
IValue computed(SizeOperator op, const IValue& first, const IValue& second) {
  const int64_t a = first.toInt();
  if (op == SizeOperator::kNeg) return -a;
  const int64_t b = second.toInt();
  const bool divides =
      op == SizeOperator::kFloordiv || op == SizeOperator::kMod || op == SizeOperator::kTruediv;
  TORCH_CHECK(!divides || b != 0, "a size is divided by 0");
  switch (op) {
    case SizeOperator::kAdd: return a + b;
    case SizeOperator::kSub: return a - b;
    case SizeOperator::kMul: return a * b;
    case SizeOperator::kFloordiv: return floor_divided(a, b);
    case SizeOperator::kMod: return a - b * floor_divided(a, b);
    case SizeOperator::kTruediv: return static_cast<double>(a) / static_cast<double>(b);
    case SizeOperator::kNeg: break;
  }
  return -a;
}

}  // namespace

Pass::Pass(std::shared_ptr<const Graph> graph, std::vector<torch::Tensor> tensors)
    : graph_(std::move(graph)), device_(tensors.front().device()), values_(graph_->values) {
  check_invariant(tensors.size() == graph_->given.count_in_forward(),
                  "a graph gets the tensors that it was read for");
  for (size_t i = 0; i < tensors.size(); ++i) values_[i] = std::move(tensors[i]);
}

// What is returned gets a history that leads to the pass: were it the very tensor that the pass holds,
// neither would ever be freed.
torch::Tensor Pass::forward() {
  run(0, graph_->backward_begin);
  IValue& held = values_[graph_->output];
  const torch::Tensor output = held.toTensor().detach();
  if (!graph_->keeps_output) held = IValue();
  return output;
}

torch::Tensor Pass::prediction_beside() const {
  return graph_->prediction_beside ? values_[*graph_->prediction_beside].toTensor() : torch::Tensor();
}

std::vector<torch::Tensor> Pass::backward(torch::Tensor cotangent) {
  check_invariant(graph_->given.training, "only a graph for training has gradients");
  values_[graph_->given.count_in_forward()] = std::move(cotangent);
  run(graph_->backward_begin, graph_->nodes.size());
  std::vector<torch::Tensor> gradients;
  for (const auto& gradient : graph_->gradients)
    gradients.push_back(gradient ? values_[*gradient].toTensor() : torch::Tensor());
  values_.clear();
  return gradients;
}

// The casts of mixed precision are operators of the graph, and so is the backward pass: neither autocast nor
// autograd has anything to add.
void Pass::run(size_t begin, size_t end) {
  const at::AutoDispatchBelowAutograd no_autograd;
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  std::vector<IValue> stack;
  for (size_t i = begin; i < end; ++i) {
    const Node& node = graph_->nodes[i];
    try {
      call(node, stack);
    } catch (c10::Error& error) {
      error.add_context(cat("in operator ", i, " of the model file, ", node.name));
      throw;
    }
    for (const size_t value : node.last_uses) values_[value] = IValue();
  }
}

void Pass::call(const Node& node, std::vector<IValue>& stack) {
  stack.clear();
  for (const Argument& argument : node.arguments) stack.push_back(value_of(argument));
  if (node.op) {
    node.op->callBoxed(stack);
  } else {
    stack = {computed(node.size_operator, stack.front(), stack.back())};
  }
  take_results(node, stack);
}

IValue Pass::value_of(const Argument& argument) const {
  const auto tensor_at = [&](const Element& element) { return values_[*element.value].toTensor(); };
  switch (argument.kind) {
    case Kind::kLiteral: return argument.literal;
    case Kind::kDevice: return device_;
    case Kind::kValue: return values_[argument.value];
    case Kind::kTensorOfNumber: return tensor_of_number(values_[argument.value]);
    case Kind::kRealOfNumber: return values_[argument.value].toScalar().toDouble();
    case Kind::kIntegers: {
      c10::List<int64_t> list;
      for (const Element& element : argument.elements)
        list.push_back(element.value ? values_[*element.value].toInt() : element.literal.toInt());
      return list;
    }
    case Kind::kTensors: {
      c10::List<torch::Tensor> list;
      for (const Element& element : argument.elements) list.push_back(tensor_at(element));
      return list;
    }
    case Kind::kOptionalTensors: {
      c10::List<std::optional<torch::Tensor>> list;
      for (const Element& element : argument.elements)
        list.push_back(element.value ? std::optional(tensor_at(element)) : std::nullopt);
      return list;
    }
  }
  return {};
}

void Pass::take_results(const Node& node, std::vector<IValue>& stack) {
  if (node.returns_list) {
    const std::vector<torch::Tensor> list = stack.at(0).toTensorVector();
    stack.assign(list.begin(), list.end());
  }
  TORCH_CHECK(stack.size() == node.results.size(), "has ", stack.size(), " results instead of ",
              node.results.size());
  for (size_t i = 0; i < stack.size(); ++i) {
    if (node.results[i]) values_[*node.results[i]] = std::move(stack[i]);
  }
  stack.clear();
}

}  // namespace autotrain::graph
