#include "model/linear.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/cpu/Utils.h>
#include <ATen/native/quantized/PackedParams.h>
#include <ATen/ops/_convert_weight_to_int4pack_for_cpu.h>
#include <ATen/ops/_weight_int4pack_mm_for_cpu.h>
#include <ATen/ops/_weight_int8pack_mm.h>
#include <ATen/ops/quantize_per_channel.h>
#include <ATen/ops/stack.h>
#include <torch/nn/functional/linear.h>

#include <functional>

#include "model/few_rows.h"
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

// What the kernel of four bits takes: blocks of 16 outputs, whole groups of inputs.
bool takes_int4(const torch::Tensor& weight, int64_t group) {
  return weight.size(0) % 16 == 0 && weight.size(1) % group == 0 && group >= 32;
}

}  // namespace

struct LinearImpl::Packed {
  std::function<torch::Tensor(const torch::Tensor& inputs)> multiply;
};

torch::Tensor LinearImpl::forward(const torch::Tensor& inputs) {
  if (packed_) return packed_->multiply(inputs);
  const torch::Tensor in_use = weight_in_use();
  if (takes_columns(inputs, in_use)) return linear_by_columns(inputs, in_use, bias);
  return torch::nn::functional::linear(inputs, in_use, bias);
}

void LinearImpl::keep(Packed packed) {
  packed_ = std::make_shared<Packed>(std::move(packed));
  weight.set_data(torch::empty({0}, weight.options().requires_grad(false)));
}

void LinearImpl::quantize() {
  const torch::NoGradGuard no_gradients;
  const PackedWeights weights = pack(weight.detach(), bias.defined() ? bias.detach() : bias);
  keep({[weights](const torch::Tensor& inputs) { return multiply(inputs, weights); }});
}

void LinearImpl::keep_int8() {
  const torch::NoGradGuard no_gradients;
  const Int8Weight stored = to_int8(weight.detach().to(torch::kFloat32));
  const torch::Tensor scale = stored.scale.to(weight.scalar_type());
  keep({[values = stored.values, scale, added = bias](const torch::Tensor& inputs) {
    return by_rows(inputs, added,
                   [&](const torch::Tensor& rows) { return at::_weight_int8pack_mm(rows, values, scale); });
  }});
}

bool LinearImpl::keep_int4(int64_t group) {
  if (!takes_int4(weight, group)) return false;
  const torch::NoGradGuard no_gradients;
  const Int4Weight stored = to_int4(weight.detach().to(torch::kFloat32), group);
  const torch::Tensor packed =
      at::_convert_weight_to_int4pack_for_cpu(int4_values(stored).to(torch::kInt32), /*innerKTiles=*/2);
  // [groups, out, 2]: a value v stands for (v - 8) · scale + zero.
  const torch::Tensor scale = stored.scale.t().to(weight.scalar_type());
  const torch::Tensor scale_and_zero = at::stack({scale, at::zeros_like(scale)}, 2).contiguous();
  keep({[packed, scale_and_zero, group, added = bias](const torch::Tensor& inputs) {
    return by_rows(inputs, added, [&](const torch::Tensor& rows) {
      return at::_weight_int4pack_mm_for_cpu(rows, packed, group, scale_and_zero);
    });
  }});
  return true;
}

int64_t quantize_linear_layers(torch::nn::Module& module) {
  int64_t layers = 0;
  for (const auto& part : module.modules()) {
    auto* const layer = part->as<LinearImpl>();
    if (layer == nullptr) continue;
    layer->quantize();
    ++layers;
  }
  return layers;
}

}  // namespace autotrain
