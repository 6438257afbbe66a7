#include "model/packed_product.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/cpu/Utils.h>
#include <ATen/native/quantized/PackedParams.h>
#include <ATen/ops/_convert_weight_to_int4pack_for_cpu.h>
#include <ATen/ops/_weight_int4pack_mm_for_cpu.h>
#include <ATen/ops/_weight_int8pack_mm.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/quantize_per_channel.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <torch/utils.h>

#include "model/rounding.h"

namespace autotrain {
namespace {

using PackedWeights = c10::intrusive_ptr<LinearPackedParamsBase>;

PackedWeights pack(const torch::Tensor& weight, const torch::Tensor& bias) {
  static const auto prepack = c10::Dispatcher::singleton()
                                  .findSchemaOrThrow("quantized::linear_prepack", "")
                                  .typed<PackedWeights(at::Tensor, std::optional<at::Tensor>)>();
  // Symmetric: the largest weight of an output becomes ±127.
  const torch::Tensor scales = weight.abs().amax(1).clamp_min(1e-12).div(127).to(torch::kFloat64);
  const torch::Tensor rounded = at::quantize_per_channel(
      weight.contiguous(), scales, at::zeros({weight.size(0)}, torch::kInt64), 0, torch::kQInt8);
  return prepack.call(rounded, bias.defined() ? std::optional(bias) : std::nullopt);
}

// Without the VNNI instructions two products are added in sixteen bits, which holds inputs of seven bits
// only.
torch::Tensor multiply(const torch::Tensor& inputs, const PackedWeights& weights) {
  static const auto linear = c10::Dispatcher::singleton()
                                 .findSchemaOrThrow("quantized::linear_dynamic", "")
                                 .typed<at::Tensor(at::Tensor, const PackedWeights&, bool)>();
  static const bool reduce_range = !at::cpu::is_avx512_vnni_supported();
  return linear.call(inputs, weights, reduce_range);
}

// LibTorch's kernels of few-bit weights take rows, and add no bias.
torch::Tensor by_rows(const torch::Tensor& inputs, const torch::Tensor& bias,
                      const std::function<torch::Tensor(const torch::Tensor& rows)>& multiply) {
  torch::Tensor rows = multiply(inputs.reshape({-1, inputs.size(-1)}).contiguous());
  if (bias.defined()) rows.add_(bias);
  std::vector<int64_t> sizes = inputs.sizes().vec();
  sizes.back() = rows.size(1);
  return rows.view(sizes);
}

// With zeros up to whole vectors of any processor: with AVX-512 the kernel of eight bits loads 16 inputs of a
// weight at a time, from addresses that it takes to be multiples of 16.
torch::Tensor whole_vectors(const torch::Tensor& rows) {
  constexpr int64_t kVector = 64;
  const int64_t rest = rows.size(1) % kVector;
  return rest == 0 ? rows : at::constant_pad_nd(rows, {0, kVector - rest});
}

// What the kernel of four bits takes: blocks of 16 outputs, whole groups of inputs.
bool takes_int4(const torch::Tensor& weight, int64_t group) {
  return weight.size(0) % 16 == 0 && weight.size(1) % group == 0 && group >= 32;
}

}  // namespace

LinearProduct product_in_int8(const torch::Tensor& weight, const torch::Tensor& bias) {
  const torch::NoGradGuard no_gradients;
  const PackedWeights weights = pack(weight.detach(), bias.defined() ? bias.detach() : bias);
  return [weights](const torch::Tensor& inputs) { return multiply(inputs, weights); };
}

LinearProduct product_of_int8(const torch::Tensor& weight, const torch::Tensor& bias) {
  const torch::NoGradGuard no_gradients;
  const Int8Weight stored = to_int8(weight.detach().to(torch::kFloat32));
  const torch::Tensor scale = stored.scale.to(weight.scalar_type());
  return [values = whole_vectors(stored.values), scale, added = bias](const torch::Tensor& inputs) {
    return by_rows(inputs, added, [&](const torch::Tensor& rows) {
      return at::_weight_int8pack_mm(whole_vectors(rows), values, scale);
    });
  };
}

std::optional<LinearProduct> product_of_int4(const torch::Tensor& weight, const torch::Tensor& bias,
                                             int64_t group) {
  if (!takes_int4(weight, group)) return std::nullopt;
  const torch::NoGradGuard no_gradients;
  const Int4Weight stored = to_int4(weight.detach().to(torch::kFloat32), group);
  const torch::Tensor packed =
      at::_convert_weight_to_int4pack_for_cpu(int4_values(stored).to(torch::kInt32), /*innerKTiles=*/2);
  // [groups, out, 2]: a value v stands for (v - 8) · scale + zero.
  const torch::Tensor scale = stored.scale.t().to(weight.scalar_type());
  const torch::Tensor scale_and_zero = at::stack({scale, at::zeros_like(scale)}, 2).contiguous();
  return [packed, scale_and_zero, group, added = bias](const torch::Tensor& inputs) {
    return by_rows(inputs, added, [&](const torch::Tensor& rows) {
      return at::_weight_int4pack_mm_for_cpu(rows, packed, group, scale_and_zero);
    });
  };
}

}  // namespace autotrain
