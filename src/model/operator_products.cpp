#include "model/operator_products.h"

#include <algorithm>
#include <array>

namespace autotrain {
namespace {

using Tensors = std::vector<torch::Tensor>;

double volume(const torch::Tensor& tensor) {
  return static_cast<double>(tensor.numel());
}

// Every element of the result is a sum over the last dimension of `left`, which meets the last one but one of
// what stands right of it, or its only one.
Products matrix_product(const Tensors& in, const Tensors& out, size_t left) {
  const int64_t met = in[left + 1].dim() > 1 ? -2 : -1;
  return {2 * volume(out[0]) * static_cast<double>(in[left].size(-1)), {left, left + 1}, {-1, met}};
}

// A weight [O, I].
Products linear(const Tensors& in, const Tensors& out) {
  return {2 * volume(out[0]) * static_cast<double>(in[0].size(-1)), {0, 1}};
}

// A weight [O, I / groups, …] makes volume ÷ O products for each element of the result; a transposed one,
// whose first dimension is I, for each element of the input.
template <bool transposed>
Products convolution(const Tensors& in, const Tensors& out) {
  const double window = volume(in[1]) / static_cast<double>(in[1].size(0));
  const std::optional<int64_t> inputs = transposed ? std::optional<int64_t>(0) : std::nullopt;
  return {2 * volume(transposed ? in[0] : out[0]) * window, {0, 1}, {std::nullopt, inputs}};
}

// Queries [.., L, D], keys [.., S, D], values [.., S, V]: scores and their sums of values.
Products attention(const Tensors& in, const Tensors&) {
  const double rows = volume(in[0]) / static_cast<double>(in[0].size(-1));
  const auto keys = static_cast<double>(in[1].size(-2));
  return {2 * rows * keys * static_cast<double>(in[1].size(-1) + in[2].size(-1)), {0, 1, 2}};
}

// From the gradient of the result, the input and the weight: those gradients of input and weight that are
// wanted, each in as many products as the forward pass makes. The bias has one dimension and needs none.
template <bool transposed>
Products convolution_backward(const Tensors& in, const Tensors& out) {
  const double window = volume(in[2]) / static_cast<double>(in[2].size(0));
  const auto wanted = std::ranges::count_if(out, [](const torch::Tensor& each) { return each.dim() > 1; });
  return {2 * volume(in[transposed ? 1 : 0]) * window * static_cast<double>(wanted), {0, 2}};
}

// The backward pass has twice the forward's operations: gradients of values, scores, queries and keys.
Products attention_backward(const Tensors& in, const Tensors&) {
  const Products forward = attention({in[1], in[2], in[3]}, {});
  return {2 * forward.flops, {1, 2, 3}};
}

// A layer that recurs, in one direction: the rows of the input [.., I] times [gates · H, I], and those of the
// states times [gates · H, H].
Products recurrent(const Tensors& in, const Tensors&) {
  const double rows = volume(in[0]) / static_cast<double>(in[0].size(-1));
  return {2 * rows * (volume(in[1]) + volume(in[2])), {0, 1, 2}};
}

template <size_t left>
Products product_of(const Tensors& in, const Tensors& out) {
  return matrix_product(in, out, left);
}

Products packed_linear(const Tensors& in, const Tensors& out) {
  return {2 * volume(out[0]) * static_cast<double>(in[0].size(-1)), {0}};
}

constexpr std::array kRules = {
    ProductRule{"aten::linear", OperatorKind::kLinear, 2, linear},
    ProductRule{"aten::matmul", OperatorKind::kMatrixProduct, 2, product_of<0>},
    ProductRule{"aten::mm", OperatorKind::kMatrixProduct, 2, product_of<0>},
    ProductRule{"aten::bmm", OperatorKind::kMatrixProduct, 2, product_of<0>},
    ProductRule{"aten::addmm", OperatorKind::kMatrixProduct, 3, product_of<1>},
    ProductRule{"aten::baddbmm", OperatorKind::kMatrixProduct, 3, product_of<1>},
    ProductRule{"aten::convolution", OperatorKind::kConvolution, 2, convolution<false>},
    ProductRule{"aten::scaled_dot_product_attention", OperatorKind::kAttention, 3, attention},
    ProductRule{"aten::_scaled_dot_product_flash_attention_for_cpu", OperatorKind::kAttention, 3, attention},
    ProductRule{"aten::convolution_backward", OperatorKind::kConvolution, 3, convolution_backward<false>},
    ProductRule{"aten::_scaled_dot_product_flash_attention_for_cpu_backward", OperatorKind::kAttention, 4,
                attention_backward},
    ProductRule{"aten::mkldnn_rnn_layer", OperatorKind::kLinear, 3, recurrent},
    ProductRule{"quantized::linear_dynamic", OperatorKind::kLinear, 1, packed_linear},
};
constexpr ProductRule kTransposed{"aten::convolution", OperatorKind::kConvolution, 2, convolution<true>};
constexpr ProductRule kTransposedBackward{"aten::convolution_backward", OperatorKind::kConvolution, 3,
                                          convolution_backward<true>};

}  // namespace

const ProductRule* product_rule(std::string_view name, c10::ArrayRef<const c10::IValue> inputs) {
  const auto* const rule = std::ranges::find(kRules, name, &ProductRule::name);
  if (rule == kRules.end()) return nullptr;
  const auto flag = [&](size_t argument) { return inputs.size() > argument && inputs[argument].toBool(); };
  if (rule->products == convolution<false> && flag(6)) return &kTransposed;
  if (rule->products == convolution_backward<false> && flag(7)) return &kTransposedBackward;
  return rule;
}

}  // namespace autotrain
