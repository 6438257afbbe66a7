// Which parameters learn: the part of Network that freezes and adapts.
#include <torch/nn/init.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <unordered_set>

#include "autotrain/error.h"
#include "base/text.h"
#include "model/initial_weights.h"
#include "model/linear.h"
#include "model/models.h"
#include "model/name_patterns.h"
#include "model/parts.h"
#include "recipe/patterns.h"

namespace autotrain {
namespace {

constexpr const char *kMatch = "model.lora.match", *kTrain = "model.lora.train";

std::vector<std::string> names_of_parameters(const torch::nn::Module& module) {
  std::vector<std::string> names;
  for (const auto& item : module.named_parameters()) names.push_back(item.key());
  return names;
}

// Of parameters, and of the parts of the module that have some.
std::vector<std::string> names_of_parts(const torch::nn::Module& module) {
  std::vector<std::string> names = names_of_parameters(module);
  std::unordered_set<std::string> seen;
  for (size_t i = 0; i < names.size(); ++i) {  // which grows
    const std::string part = part_of(names[i]);
    if (!part.empty() && seen.insert(part).second) names.push_back(part);
  }
  return names;
}

using TensorSet = std::unordered_set<const void*>;

// The parameters that `model.lora.train` names, each by any of its names.
TensorSet taken_whole(const std::vector<std::string>& patterns, const torch::nn::Module& module) {
  TensorSet taken;
  for (const std::string& pattern : patterns) {
    bool matches = false;
    for (const auto& item : module.named_parameters()) {
      if (!takes(pattern, item.key())) continue;
      taken.insert(item.value().unsafeGetTensorImpl());
      matches = true;
    }
    if (!matches) fail_unmatched(kTrain, pattern, names_of_parts(module));
  }
  return taken;
}

LinearImpl* layer_with(const torch::Tensor& weight, const torch::nn::Module& module) {
  for (const auto& part : module.modules(/*include_self=*/false)) {
    auto* const layer = part->as<LinearImpl>();
    if (layer != nullptr && layer->weight.is_same(weight)) return layer;
  }
  return nullptr;
}

// The first of a parameter's names: the one under which files hold it.
std::string first_name_of(const torch::Tensor& parameter, const torch::nn::Module& module) {
  for (const auto& item : module.named_parameters()) {
    if (item.value().is_same(parameter)) return item.key();
  }
  throw std::logic_error("the tensor is a parameter of the model");
}

// The weights that one pattern takes: those that can be adapted, among what it matches.
std::vector<NamedTensor> weights_for(
    const std::string& pattern, const torch::nn::Module& module,
    const std::function<std::string(const torch::Tensor& weight)>& cannot_adapt) {
  std::vector<NamedTensor> weights;
  std::vector<std::string> others;
  for (const auto& item : module.named_parameters()) {
    if (!takes(pattern, item.key()) || is_adapter_tensor(item.key())) continue;
    const torch::Tensor& tensor = item.value();
    const std::string why = tensor.dim() != 2 ? "is no matrix" : cannot_adapt(tensor);
    if (why.empty())
      weights.push_back({first_name_of(tensor, module), tensor});
    else
      others.push_back(cat(item.key(), " ", tensor.sizes(), " ", why));
  }
  if (!weights.empty()) return weights;
  if (others.empty()) fail_unmatched(kMatch, pattern, names_of_parts(module));
  throw Error(
      ExitCode::kBadRecipe, kMatch,
      cat(quote(pattern), " matches no weight that can be adapted: ", some_of(others)),
      "adapters change the weights [out, in] of linear layers; model.lora.train lets others learn whole");
}

}  // namespace

void Network::freeze(const std::vector<std::string>& patterns) {
  if (patterns.empty()) return;
  constexpr const char* kKey = "model.freeze";
  check_patterns(kKey, patterns, names_of_parameters(*this));
  freeze_those(kKey, [&](const NamedTensor& parameter) { return matches_any(parameter.name, patterns); });
}

void Network::freeze_those(const char* key, const std::function<bool(const NamedTensor&)>& freezes) {
  frozen_ = freeze_parameters(freezes, *this);
  on_frozen(key);
  train(is_training());
}

void Network::adapt(const LoraRecipe& recipe) {
  if (!recipe.active()) return;
  TensorSet learning = taken_whole(recipe.train, *this);
  const auto cannot = [&](const torch::Tensor& weight) { return cannot_adapt(weight); };
  for (const std::string& pattern : recipe.match) {
    for (const NamedTensor& weight : weights_for(pattern, *this, cannot)) {
      const bool whole = learning.contains(weight.tensor.unsafeGetTensorImpl());
      const bool known = std::ranges::any_of(
          adapters_, [&](const auto& other) { return other.second->weight.is_same(weight.tensor); });
      if (!whole && !known) add_adapter(weight, recipe);
    }
  }
  if (adapters_.empty())
    throw Error(ExitCode::kBadRecipe, kMatch, "matches nothing but what model.lora.train lets learn whole",
                "name other weights, or none in model.lora.train");
  for (const auto& [name, adapter] : adapters_)
    learning.insert({adapter->a.unsafeGetTensorImpl(), adapter->b.unsafeGetTensorImpl()});
  freeze_those(kMatch, [&](const NamedTensor& parameter) {
    return !learning.contains(parameter.tensor.unsafeGetTensorImpl());
  });
}

// Drawn as peft draws them, by kaiming_uniform_(a = √5).
void Network::add_adapter(const NamedTensor& weight, const LoraRecipe& recipe) {
  const int64_t rank = recipe.rank_used(), out = weight.tensor.size(0), in = weight.tensor.size(1);
  const auto add = [&](const std::string& name, const torch::Tensor& tensor) {
    return part_with(*this, name).register_parameter("weight", tensor);
  };
  const torch::Tensor a = torch::nn::init::kaiming_uniform_(torch::empty({rank, in}), std::sqrt(5.0));
  auto adapter =
      std::make_shared<const Adapter>(Adapter{.weight = weight.tensor,
                                              .a = add(name_of_a(weight.name), a),
                                              .b = add(name_of_b(weight.name), torch::zeros({out, rank})),
                                              .scale = recipe.scale()});
  use(weight.tensor, adapter);
  adapters_.emplace(weight.name, std::move(adapter));
}

void Network::merge_adapters() {
  const torch::NoGradGuard no_gradients;
  for (const auto& [name, adapter] : adapters_) {
    adapter->weight.detach().copy_(adapter->effective());
    use(adapter->weight, nullptr);
    for (const std::string& half : {name_of_a(name), name_of_b(name)}) {
      const std::string part = part_of(half);  // "fc.lora_A"
      part_with(*this, part).unregister_module(part.substr(part.rfind('.') + 1));
    }
  }
  adapters_.clear();
}

std::string Network::cannot_adapt(const torch::Tensor& weight) const {
  if (layer_with(weight, *this) != nullptr) return "";
  return is_users_own() ? "is of a layer of the program's own, whose forward knows of no adapter"
                        : "is not of a linear layer";
}

void Network::use(const torch::Tensor& weight, std::shared_ptr<const Adapter> adapter) {
  layer_with(weight, *this)->adapt(std::move(adapter));
}

}  // namespace autotrain
