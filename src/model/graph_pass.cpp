#include "model/graph_pass.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

#include "autotrain/error.h"
#include "base/text.h"
#include "model/graph_uses.h"
#include "model/index_error.h"
#include "model/operator_products.h"

namespace autotrain::graph {
namespace {

using c10::IValue;
using Kind = Argument::Kind;

// Of products, in the time of moving a byte: about what processors reach in fp32. Those that multiply half
// precision quickly reach more, and to them a product is less work than is taken here.
constexpr double kOperationsForAByte = 16;
constexpr int64_t kWorthSmallerForm = 64 << 10;  // bytes: what is smaller adds up to little

int64_t floor_divided(int64_t a, int64_t b) {
  const int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

bool is_real(const IValue& number) {
  return number.isDouble();
}

int64_t whole(const IValue& number) {
  return number.isBool() ? static_cast<int64_t>(number.toBool()) : number.toInt();
}

double real(const IValue& number) {
  return is_real(number) ? number.toDouble() : static_cast<double>(whole(number));
}

bool is_true(const IValue& number) {
  return is_real(number) ? number.toDouble() != 0 : whole(number) != 0;
}

// -1, 0 or 1, as the first is less than, equal to or greater than the second; 2 where one is no number.
int compared(const IValue& first, const IValue& second) {
  if (!is_real(first) && !is_real(second)) {
    const int64_t a = whole(first), b = whole(second);
    return a < b ? -1 : a > b ? 1 : 0;
  }
  const double a = real(first), b = real(second);
  return a < b ? -1 : a > b ? 1 : a == b ? 0 : 2;
}

int64_t whole_power(int64_t base, int64_t exponent) {
  int64_t power = 1;
  for (; exponent > 0; exponent >>= 1) {
    if (exponent & 1) TORCH_CHECK(!__builtin_mul_overflow(power, base, &power), "a size grows too large");
    if (exponent > 1) TORCH_CHECK(!__builtin_mul_overflow(base, base, &base), "a size grows too large");
  }
  return power;
}

IValue real_arithmetic(SizeOperator op, double a, double b) {
  switch (op) {
    case SizeOperator::kAdd: return a + b;
    case SizeOperator::kSub: return a - b;
    case SizeOperator::kMul: return a * b;
    case SizeOperator::kFloordiv: return std::floor(a / b);
    case SizeOperator::kMod: return a - b * std::floor(a / b);
    case SizeOperator::kPow: return std::pow(a, b);
    default: return a / b;
  }
}

// As Python computes: quotients are rounded down, and a remainder has the sign of its divisor.
IValue arithmetic(SizeOperator op, const IValue& first, const IValue& second) {
  const bool divides =
      op == SizeOperator::kFloordiv || op == SizeOperator::kMod || op == SizeOperator::kTruediv;
  TORCH_CHECK(!divides || real(second) != 0, "a size is divided by 0");
  const bool fraction = op == SizeOperator::kTruediv || (op == SizeOperator::kPow && real(second) < 0);
  if (fraction || is_real(first) || is_real(second)) return real_arithmetic(op, real(first), real(second));
  const int64_t a = whole(first), b = whole(second);
  switch (op) {
    case SizeOperator::kAdd: return a + b;
    case SizeOperator::kSub: return a - b;
    case SizeOperator::kMul: return a * b;
    case SizeOperator::kMod: return a - b * floor_divided(a, b);
    case SizeOperator::kPow: return whole_power(a, b);
    default: return floor_divided(a, b);
  }
}

// Of a real number as a whole one.
IValue rounded(double number) {
  TORCH_CHECK(std::abs(number) < 0x1p62, "a number made of sizes is too large, or none: ", number);
  return static_cast<int64_t>(number);
}

IValue of_one(SizeOperator op, const IValue& number) {
  switch (op) {
    case SizeOperator::kNot: return !is_true(number);
    case SizeOperator::kFloat: return real(number);
    case SizeOperator::kSqrt: return std::sqrt(real(number));
    case SizeOperator::kNeg: return is_real(number) ? IValue(-real(number)) : IValue(-whole(number));
    case SizeOperator::kAbs:
      return is_real(number) ? IValue(std::abs(real(number))) : IValue(std::abs(whole(number)));
    default: break;
  }
  if (!is_real(number)) return whole(number);
  if (op == SizeOperator::kFloor) return rounded(std::floor(real(number)));
  if (op == SizeOperator::kCeil) return rounded(std::ceil(real(number)));
  if (op == SizeOperator::kRound) return rounded(std::nearbyint(real(number)));
  return rounded(std::trunc(real(number)));
}

IValue computed(SizeOperator op, const std::vector<IValue>& operands) {
  if (operands.size() == 1) return of_one(op, operands[0]);
  if (op == SizeOperator::kIte) return is_true(operands[0]) ? operands[1] : operands[2];
  const int order = compared(operands[0], operands[1]);
  switch (op) {
    case SizeOperator::kMax: return order < 0 ? operands[1] : operands[0];
    case SizeOperator::kMin: return order > 0 ? operands[1] : operands[0];
    case SizeOperator::kEq: return order == 0;
    case SizeOperator::kNe: return order != 0;
    case SizeOperator::kLt: return order == -1;
    case SizeOperator::kLe: return order == -1 || order == 0;
    case SizeOperator::kGt: return order == 1;
    case SizeOperator::kGe: return order == 0 || order == 1;
    case SizeOperator::kAnd:  // bit by bit, as Python has it
      if (operands[0].isInt() && operands[1].isInt()) return operands[0].toInt() & operands[1].toInt();
      return is_true(operands[0]) && is_true(operands[1]);
    case SizeOperator::kOr:
      if (operands[0].isInt() && operands[1].isInt()) return operands[0].toInt() | operands[1].toInt();
      return is_true(operands[0]) || is_true(operands[1]);
    default: return arithmetic(op, operands[0], operands[1]);
  }
}

// A result that shares memory with an argument costs nothing, unless something is written.
bool is_view(const Node& node) {
  return !node.op || (node.writes.empty() && !node.op->schema().returns().empty() &&
                      node.op->schema().returns()[0].alias_info() != nullptr);
}

// Operators beside those that LibTorch marks as elementwise whose time is that of reading and writing memory.
constexpr std::array<std::string_view, 32> kOnlyMove = {"native_batch_norm",
                                                        "native_layer_norm",
                                                        "native_group_norm",
                                                        "_softmax",
                                                        "_log_softmax",
                                                        "mean",
                                                        "sum",
                                                        "amax",
                                                        "amin",
                                                        "var_mean",
                                                        "max_pool2d_with_indices",
                                                        "avg_pool2d",
                                                        "adaptive_avg_pool2d",
                                                        "_adaptive_avg_pool2d",
                                                        "upsample_nearest2d",
                                                        "upsample_bilinear2d",
                                                        "cat",
                                                        "stack",
                                                        "clone",
                                                        "_to_copy",
                                                        "copy",
                                                        "embedding",
                                                        "gather",
                                                        "index_select",
                                                        "index",
                                                        "constant_pad_nd",
                                                        "reflection_pad2d",
                                                        "repeat",
                                                        "cumsum",
                                                        "roll",
                                                        "masked_fill",
                                                        "_unsafe_view"};

bool only_moves(const Node& node) {
  if (node.op->hasTag(at::Tag::pointwise)) return true;
  const std::string& name = node.op->operator_name().name;  // "aten::relu_"
  std::string_view bare(name);
  if (const size_t colon = bare.rfind(':'); colon != std::string_view::npos) bare.remove_prefix(colon + 1);
  if (bare.ends_with('_')) bare.remove_suffix(1);
  return std::ranges::find(kOnlyMove, bare) != kOnlyMove.end();
}

// The kernels of group normalisation take it that inputs, and the gradient beside them, lie alike, which
// LibTorch sees to before it calls them. The trace has nothing of that, for contiguous tensors do; images
// with their channels last do not where the gradient comes from a layer that flattened them. On the way back
// they are contiguous in any case: with channels last a kernel that is not to give the gradient of the images
// writes to it all the same (LibTorch 2.11).
void lay_alike(const Node& node, std::vector<IValue>& arguments) {
  const auto lay = [&](size_t number, c10::MemoryFormat format) {
    arguments[number] = arguments[number].toTensor().contiguous(format);
  };
  if (node.name == "aten::native_group_norm_backward") {
    lay(0, c10::MemoryFormat::Contiguous);
    lay(1, c10::MemoryFormat::Contiguous);
  } else if (node.name == "aten::native_group_norm") {
    const torch::Tensor& inputs = arguments[0].toTensor();
    lay(0, inputs.is_cpu() ? inputs.suggest_memory_format() : c10::MemoryFormat::Contiguous);
  }
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

void Pass::begin_backward(torch::Tensor cotangent) {
  check_invariant(graph_->given.training, "only a graph for training has gradients");
  values_[graph_->given.count_in_forward()] = std::move(cotangent);
  next_node_ = graph_->backward_begin;
}

torch::Tensor Pass::next_gradient() {
  const std::vector<ReadyGradient>& ready = graph_->ready;
  check_invariant(next_gradient_ < ready.size(), "each gradient is taken once");
  const ReadyGradient& next = ready[next_gradient_++];
  const bool is_last = next_gradient_ == ready.size();
  const size_t end = is_last ? graph_->nodes.size() : next.end;
  run(*next_node_, end);
  next_node_ = end;
  const std::optional<size_t> value = graph_->gradients[next.number];
  const torch::Tensor gradient = value ? values_[*value].toTensor() : torch::Tensor();
  const bool again = !is_last && value && graph_->gradients[ready[next_gradient_].number] == value;
  if (value && !again) values_[*value] = IValue();
  if (is_last) values_.clear();
  return gradient;
}

std::vector<torch::Tensor> Pass::backward(torch::Tensor cotangent) {
  begin_backward(std::move(cotangent));
  std::vector<torch::Tensor> gradients(graph_->gradients.size());
  for (const ReadyGradient& ready : graph_->ready) gradients[ready.number] = next_gradient();
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
      if (kept_) kept_->before(node, values_);
      costs_ == nullptr ? call(node, stack) : measure(i, stack);
      for (const size_t value : node.last_uses) values_[value] = IValue();
      if (kept_) shrink(node);
    } catch (c10::Error& error) {
      const std::string where = cat("operator ", i, " of the model file, ", node.name);
      refuse_index(first_line(error.what_without_backtrace()), where);
      error.add_context("in " + where);
      throw;
    }
  }
}

// Measured are all, however few samples there are: of more, all are worth it.
void Pass::shrink(const Node& node) {
  kept_->after(node, values_, costs_ == nullptr ? kWorthSmallerForm : 0);
  if (costs_ == nullptr) return;
  for (const KeptValue& kept : node.shrinks) {
    if (const auto bytes = kept_->bytes(kept.value)) costs_->bytes[kept.value] = *bytes;
  }
}

void Pass::measure(size_t number, std::vector<IValue>& stack) {
  const Node& node = graph_->nodes[number];
  double moved = 0;
  const auto count = [&](size_t value) {
    const IValue& held = values_[value];
    if (!held.isTensor() || !held.toTensor().defined()) return;
    moved += static_cast<double>(held.toTensor().nbytes());
    int64_t& bytes = costs_->bytes[value];  // what is kept smaller is whole again where it is used
    if (bytes == 0) bytes = static_cast<int64_t>(held.toTensor().storage().nbytes());
  };
  for_each_value(node, count);
  std::vector<IValue> arguments, results;
  for (const Argument& argument : node.arguments) arguments.push_back(value_of(argument));
  call(node, stack);
  for (const auto& result : node.results) {
    if (!result) continue;
    count(*result);
    results.push_back(values_[*result]);
  }
  const std::vector<torch::Tensor> taken = tensors_of(arguments);
  const ProductRule* const rule =
      product_rule(node.name, c10::ArrayRef<const IValue>(arguments.data(), arguments.size()));
  if (is_view(node)) {
    costs_->work[number] = moved = 0;
  } else if (rule != nullptr && taken.size() >= rule->operands) {
    // Weights are read once, however large a batch is.
    costs_->work[number] = moved = rule->products(taken, tensors_of(results)).flops / kOperationsForAByte;
  } else {
    costs_->work[number] = only_moves(node) ? moved : std::numeric_limits<double>::infinity();
  }
  costs_->whole_work += moved;
}

void Pass::call(const Node& node, std::vector<IValue>& stack) {
  stack.clear();
  for (const Argument& argument : node.arguments) stack.push_back(value_of(argument));
  if (node.op) {
    lay_alike(node, stack);
    node.op->callBoxed(stack);
  } else {
    stack = {computed(node.size_operator, stack)};
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
    case Kind::kRealOfNumber: return real(values_[argument.value]);
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
