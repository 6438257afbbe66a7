#include "optim/optimizer.h"

#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sub.h>

#include <algorithm>
#include <map>
#include <unordered_set>

#include "autotrain/error.h"
#include "optim/decay.h"

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

Optimizer::Optimizer(Trained trained) : trained_(std::move(trained)) {
  if (trained_.decayed.empty()) {
    for (const NamedTensor& parameter : trained_.parameters)
      trained_.decayed.push_back(decayed_by_shape(parameter.tensor));
  }
  for (const ParameterGroup& group : trained_.groups) {
    for (const bool decays : {true, false}) add_group(group, decays);
    if (group.every > 1) in_turn_.assign(parameters().size(), true);
  }
}

void Optimizer::begin_update(const UpdateInfo& info) {
  if (in_turn_.empty()) return;
  for (const ParameterGroup& group : trained_.groups) {
    for (const size_t i : group.parameters) in_turn_[i] = group.in_turn(info);
  }
}

int64_t Optimizer::decayed() const {
  int64_t count = 0;
  for (const ParameterGroup& group : trained_.groups) {
    if (group.weight_decay == 0) continue;
    count += std::ranges::count_if(group.parameters,
                                   [&](size_t i) { return group.decay_all || trained_.decayed[i]; });
  }
  return count;
}

// What of it is always decayed, or its biases and normalisation weights, which are decayed only when asked.
void Optimizer::add_group(const ParameterGroup& group, bool decays) {
  Group own{.lr_factor = group.lr_factor, .weight_decay = decays || group.decay_all ? group.weight_decay : 0};
  for (size_t i = 0; i < members(); ++i) {
    const size_t parameter = sharded() ? pieces()[i].tensor : i;
    if (trained_.decayed[parameter] == decays && std::ranges::binary_search(group.parameters, parameter))
      own.members.push_back(i);
  }
  if (own.members.empty()) return;
  if (own.lr_factor != 1) {
    // Of the type in which kernels take a rate.
    const auto type = device().is_cpu() ? torch::kFloat64 : torch::kFloat32;
    own.factor = torch::full({}, own.lr_factor, torch::TensorOptions().dtype(type).device(device()));
    own.lr = torch::zeros_like(own.factor);
  }
  groups_.push_back(std::move(own));
}

torch::Device Optimizer::device() const {
  return parameters().empty() ? torch::Device(torch::kCPU) : parameters()[0].tensor.device();
}

const NamedTensor& Optimizer::parameter_of(size_t member) const {
  return parameters()[number_of(member)];
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
  scalars_.push_back(
      {name, torch::zeros({}, torch::TensorOptions().dtype(torch::kFloat32).device(device()))});
  return scalars_.back().tensor;
}

torch::Tensor Optimizer::add_counts(const std::string& name) {
  const auto count = static_cast<int64_t>(parameters().size());
  scalars_.push_back(
      {name, torch::zeros({count}, torch::TensorOptions().dtype(torch::kFloat32).device(device()))});
  counts_.push_back(scalars_.back().tensor);
  return scalars_.back().tensor;
}

void Optimizer::count_update(const std::vector<torch::Tensor>& counts, const torch::Tensor& found_inf,
                             const torch::Tensor& one, torch::Tensor delta) const {
  at::sub_out(delta, one, found_inf);
  std::vector<torch::Tensor> reached;
  for (size_t i = 0; i < parameters().size(); ++i)
    if (parameters()[i].tensor.grad().defined()) reached.push_back(counts[i]);
  if (reached.empty()) return;
  if (!delta.is_cpu()) return at::_foreach_add_(reached, delta);
  for (const torch::Tensor& count : reached)
    *count.mutable_data_ptr<float>() += *delta.const_data_ptr<float>();
}

void Optimizer::apply(Update update) {
  const torch::NoGradGuard no_gradients;
  // A kernel that divides by one still writes every gradient back, which takes a tenth of its time. Only
  // on a CPU is the divisor known without waiting.
  const bool known = update.grad_scale && update.grad_scale->is_cpu();
  if (known && update.grad_scale->item<float>() == 1) update.grad_scale.reset();
  // A GPU's kernels take a rate on the device as float32. So that the same bits come of one that is handed
  // over as a number, it is rounded as that one is.
  const bool rounds = !device().is_cpu();
  const auto as_on_device = [rounds](double rate) {
    return rounds ? static_cast<double>(static_cast<float>(rate)) : rate;
  };
  update.lr = as_on_device(update.lr);
  before_groups(update);
  for (Group& group : groups_) {
    const Lists lists = lists_of(group);
    if (lists.members.empty()) continue;
    Update own = update;
    if (group.lr_factor != 1) own.lr = as_on_device(own.lr * as_on_device(group.lr_factor));
    if (group.lr.defined() && update.lr_on_device.defined())
      own.lr_on_device = at::mul_out(group.lr, update.lr_on_device, group.factor);
    apply_group(group, lists, own);
  }
}

Optimizer::Lists Optimizer::lists_of(const Group& group) const {
  Lists lists;
  for (const size_t i : group.members) {
    const torch::Tensor& parameter = parameter_of(i).tensor;
    if (!parameter.grad().defined()) continue;
    lists.parameters.push_back(own_part(parameter, i));
    lists.gradients.push_back(own_part(parameter.grad(), i));
    lists.members.push_back(i);
  }
  return lists;
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

// A state has a tensor for each parameter, whose names say in which order they were.
void Optimizer::reorder(const std::vector<std::string>& saved) {
  if (counts_.empty() || states_.empty()) return;
  std::map<std::string, int64_t> number_of_state;
  for (const NamedTensor& parameter : parameters())
    number_of_state.emplace(states_.front().name_for(parameter), std::ssize(number_of_state));
  std::vector<int64_t> numbers;  // today's, of each parameter in its place of then
  for (const std::string& name : saved) {
    if (const auto found = number_of_state.find(name); found != number_of_state.end())
      numbers.push_back(found->second);
  }
  if (numbers.size() != parameters().size() || std::ranges::is_sorted(numbers)) return;
  const torch::NoGradGuard no_gradients;
  const torch::Tensor places = torch::tensor(numbers, torch::kInt64).to(device());
  for (torch::Tensor& counts : counts_) counts.index_copy_(0, places, counts.clone());
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
  trained.groups = parameter_groups(recipe, trained.parameters);
  return row.make(Parameters(recipe.algorithm, row.spec), std::move(trained));
}

}  // namespace autotrain
