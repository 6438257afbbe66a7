#include "model/linear.h"

#include <torch/nn/functional/linear.h>

#include "model/experts.h"
#include "model/few_rows.h"
#include "model/packed_product.h"

namespace autotrain {

struct LinearImpl::Packed {
  LinearProduct product;
};

torch::Tensor LinearImpl::forward(const torch::Tensor& inputs) {
  if (packed_) return packed_->product(inputs);
  const torch::Tensor in_use = weight_in_use();
  if (takes_columns(inputs, in_use)) return linear_by_columns(inputs, in_use, bias);
  return torch::nn::functional::linear(inputs, in_use, bias);
}

void LinearImpl::keep(Packed packed) {
  packed_ = std::make_shared<Packed>(std::move(packed));
  weight.set_data(torch::empty({0}, weight.options().requires_grad(false)));
}

void LinearImpl::quantize() {
  keep({product_in_int8(weight, bias)});
}

void LinearImpl::keep_int8() {
  keep({product_of_int8(weight, bias)});
}

bool LinearImpl::keep_int4(int64_t group) {
  auto product = product_of_int4(weight, bias, group);
  if (!product) return false;
  keep({std::move(*product)});
  return true;
}

int64_t quantize_linear_layers(torch::nn::Module& module) {
  int64_t layers = 0;
  for (const auto& part : module.modules(/*include_self=*/false)) {
    if (auto* const experts = part->as<ExpertsImpl>()) layers += experts->quantize();
    auto* const layer = part->as<LinearImpl>();
    if (layer == nullptr) continue;
    layer->quantize();
    ++layers;
  }
  return layers;
}

}  // namespace autotrain
