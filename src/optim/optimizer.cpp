#include "optim/optimizer.h"

#include <unordered_set>

#include "autotrain/error.h"

namespace autotrain {

std::vector<NamedTensor> trainable_parameters(const torch::nn::Module& module) {
  std::vector<NamedTensor> parameters;
  std::unordered_set<const void*> seen;  // tied parameters appear under several names
  for (const auto& item : module.named_parameters()) {
    const torch::Tensor& tensor = item.value();
    if (!tensor.requires_grad() || !seen.insert(tensor.unsafeGetTensorImpl()).second) continue;
    parameters.push_back({item.key(), tensor});
  }
  return parameters;
}

Optimizer::Optimizer(Trained trained, Decay decay) : trained_(std::move(trained)) {
  Group decayed{decay.weight_decay, {}}, plain{0, {}};
  for (size_t i = 0; i < members(); ++i) {
    const bool matrix = parameter_of(i).tensor.dim() >= 2;
    (matrix || decay.decay_all ? decayed : plain).members.push_back(i);
  }
  groups_ = {std::move(decayed), std::move(plain)};
}

const NamedTensor& Optimizer::parameter_of(size_t member) const {
  return parameters()[sharded() ? pieces()[member].tensor : member];
}

torch::Tensor Optimizer::own_part(const torch::Tensor& tensor, size_t member) const {
  return sharded() ? elements_of(tensor, pieces()[member]) : tensor;
}

std::vector<torch::Tensor>& Optimizer::add_state(const std::string& name) {
  State& state = states_.emplace_back(name);
  for (size_t i = 0; i < members(); ++i) {
    const torch::Tensor part = own_part(parameter_of(i).tensor.detach(), i);
    state.tensors.push_back(torch::zeros_like(part, torch::MemoryFormat::Preserve));
  }
  return state.tensors;
}

torch::Tensor Optimizer::add_scalar(const std::string& name) {
  const auto device = parameters().empty() ? torch::Device(torch::kCPU) : parameters()[0].tensor.device();
  scalars_.push_back({name, torch::zeros({}, torch::TensorOptions().dtype(torch::kFloat32).device(device))});
  return scalars_.back().tensor;
}

void Optimizer::apply(Update update) {
  const torch::NoGradGuard no_gradients;
  // A kernel that divides by one still writes every gradient back, which takes a tenth of its time. Only
  // on a CPU is the divisor known without waiting.
  const bool known = update.grad_scale && update.grad_scale->is_cpu();
  if (known && update.grad_scale->item<float>() == 1) update.grad_scale.reset();
  before_groups(update);
  for (const Group& group : groups_) {
    Lists lists;
    for (const size_t i : group.members) {
      const torch::Tensor& parameter = parameter_of(i).tensor;
      if (!parameter.grad().defined()) continue;
      lists.parameters.push_back(own_part(parameter, i));
      lists.gradients.push_back(own_part(parameter.grad(), i));
      lists.members.push_back(i);
    }
    if (!lists.members.empty()) apply_group(group, lists, update);
  }
}

std::vector<torch::Tensor> Optimizer::select(const std::vector<torch::Tensor>& all, const Lists& lists) {
  std::vector<torch::Tensor> selected;
  selected.reserve(lists.members.size());
  for (const size_t i : lists.members) selected.push_back(all[i]);
  return selected;
}

std::vector<NamedTensor> Optimizer::state() const {
  std::vector<NamedTensor> all = scalars_;
  for (const State& state : states_) {
    for (size_t i = 0; i < members(); ++i) all.push_back({state.name_for(parameter_of(i)), state.tensors[i]});
  }
  return all;
}

int64_t Optimizer::state_bytes() const {
  int64_t bytes = 0;
  for (const NamedTensor& state : this->state()) bytes += static_cast<int64_t>(state.tensor.nbytes());
  return bytes;
}

const OptimizerRow& find_optimizer(const std::string& name) {
  for (const OptimizerRow& row : optimizer_table()) {
    if (row.spec.name == name) return row;
  }
  throw Error(ExitCode::kBadRecipe, "optimizer.name", "there is no optimizer named " + name);
}

int64_t moments_per_weight(const OptimizerRecipe& recipe) {
  const OptimizerRow& row = find_optimizer(recipe.algorithm.name);
  return row.moments(Parameters(recipe.algorithm, row.spec));
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerRecipe& recipe, Trained trained) {
  const OptimizerRow& row = find_optimizer(recipe.algorithm.name);
  return row.make(Parameters(recipe.algorithm, row.spec), recipe, std::move(trained));
}

}  // namespace autotrain
