#include "setup/torch_state.h"

#include <torch/serialize/archive.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "autotrain/error.h"
#include "base/text.h"
#include "setup/users_code.h"

namespace autotrain {
namespace {

using Leaf = TorchState::Leaf;
using Numbers = std::map<std::string, std::string>;  // of parameters, by the text of their address

// Numbers from 1 on: they are read as addresses again.
Numbers numbers_of(const torch::optim::Optimizer& optimizer) {
  Numbers numbers;
  for (const torch::Tensor& parameter : parameters_of(optimizer)) {
    numbers.emplace(std::to_string(reinterpret_cast<size_t>(parameter.unsafeGetTensorImpl())),
                    std::to_string(numbers.size() + 1));
  }
  return numbers;
}

const std::string& renamed(const std::string& text, const Numbers& numbers) {
  const auto known = numbers.find(text);
  return known == numbers.end() ? text : known->second;
}

void read_leaves(torch::serialize::InputArchive& archive, const std::vector<std::string>& path,
                 const Numbers& numbers, std::vector<Leaf>& leaves) {
  for (const std::string& key : archive.keys()) {
    std::vector<std::string> here = path;
    here.push_back(renamed(key, numbers));
    torch::serialize::InputArchive nested;
    if (archive.try_read(key, nested)) {
      leaves.push_back({.path = here, .archive = true});
      read_leaves(nested, here, numbers, leaves);
      continue;
    }
    Leaf leaf{.path = here};
    archive.read(key, leaf.value);
    if (leaf.value.isString()) leaf.value = renamed(leaf.value.toStringRef(), numbers);
    leaves.push_back(std::move(leaf));
  }
}

// @param device where its tensors are made; unset: where they were.
torch::serialize::InputArchive readable(torch::serialize::OutputArchive& archive,
                                        std::optional<torch::Device> device) {
  WithoutLocale<std::stringstream> bytes;
  archive.save_to(bytes);
  torch::serialize::InputArchive opened;
  opened.load_from(bytes, device);
  return opened;
}

// An archive in the making.
struct ArchiveFolder {
  std::map<std::string, ArchiveFolder> folders = {};
  std::map<std::string, c10::IValue> values = {};

  void write_to(torch::serialize::OutputArchive& archive) const {
    for (const auto& [name, value] : values) archive.write(name, value);
    for (const auto& [name, folder] : folders) {
      torch::serialize::OutputArchive nested(archive.compilation_unit());
      folder.write_to(nested);
      archive.write(name, nested);
    }
  }
};

// Room for a value that steps may change; undefined for what only tells the form.
torch::Tensor room_for(const c10::IValue& value) {
  if (value.isTensor())
    return torch::zeros_like(value.toTensor(), torch::TensorOptions().device(torch::kCPU));
  if (value.isInt()) return torch::zeros({}, torch::kInt64);
  if (value.isDouble()) return torch::zeros({}, torch::kFloat64);
  if (value.isBool()) return torch::zeros({}, torch::kBool);
  return {};
}

}  // namespace

std::vector<torch::Tensor> parameters_of(const torch::optim::Optimizer& optimizer) {
  std::vector<torch::Tensor> all;
  for (const auto& group : optimizer.param_groups())
    all.insert(all.end(), group.params().begin(), group.params().end());
  return all;
}

TorchState::TorchState(std::string name, std::vector<std::string> parameters,
                       const torch::optim::Optimizer& stepped)
    : name_(std::move(name)), parameters_(std::move(parameters)), form_(leaves_of(stepped)) {
  there_ = torch::zeros({std::ssize(form_)}, torch::kUInt8);
  steps_ = torch::zeros({}, torch::kInt64);
  tensors_ = {{name_ + "/steps", steps_}};
  if (!form_.empty()) tensors_.push_back({name_ + "/there", there_});
  for (Leaf& leaf : form_) {
    held_.push_back(room_for(leaf.value));
    if (!held_.back().defined()) continue;
    if (leaf.value.isTensor()) leaf.value = torch::empty({0}, leaf.value.toTensor().options());
    std::vector<std::string> words = {name_};
    words.insert(words.end(), leaf.path.begin(), leaf.path.end());
    const std::optional<size_t> parameter = parameter_of(leaf);
    if (parameter) words[2] = parameters_[*parameter];
    tensors_.push_back({join(words, "."), held_.back()});
    if (parameter) parameter_of_tensor_.emplace(tensors_.back().name, *parameter);
  }
}

// The place of the parameter whose state it is of, if it is one's.
std::optional<size_t> TorchState::parameter_of(const Leaf& leaf) const {
  int64_t number = 0;
  if (leaf.path.size() < 2 || leaf.path.front() != "state" || !parse_integer(leaf.path[1], number))
    return std::nullopt;
  if (number < 1 || number > std::ssize(parameters_)) return std::nullopt;
  return static_cast<size_t>(number - 1);
}

// Leaves are sorted by the texts of their parameters' numbers.
void TorchState::reorder(const std::vector<std::string>& saved) {
  const auto parameters_in = [&](const std::vector<std::string>& names) {
    std::vector<size_t> parameters;
    for (const std::string& name : names) {
      const auto found = parameter_of_tensor_.find(name);
      if (found != parameter_of_tensor_.end() && std::ranges::count(parameters, found->second) == 0)
        parameters.push_back(found->second);
    }
    return parameters;
  };
  std::vector<std::string> names;
  for (const NamedTensor& each : tensors_) names.push_back(each.name);
  const std::vector<size_t> then = parameters_in(saved);
  if (then == parameters_in(names)) return;
  if (then.size() != parameters_.size())
    throw Error(ExitCode::kBadData, "the optimizer " + name_,
                "has its parameters in another order than when the checkpoint was written, and keeps nothing "
                "of some of them that would tell which",
                "register them in the order of then");
  std::vector<std::string> numbers;
  for (size_t i = 1; i <= parameters_.size(); ++i) numbers.push_back(std::to_string(i));
  std::ranges::sort(numbers);
  std::map<size_t, std::string> number_then;  // of each parameter
  for (size_t i = 0; i < then.size(); ++i) number_then.emplace(then[i], numbers[i]);
  std::vector<std::pair<std::vector<std::string>, int64_t>> leaves_then;  // paths, and their places today
  for (const Leaf& leaf : form_) {
    std::vector<std::string> path = leaf.path;
    if (const std::optional<size_t> parameter = parameter_of(leaf)) path[1] = number_then.at(*parameter);
    leaves_then.emplace_back(std::move(path), std::ssize(leaves_then));
  }
  std::ranges::sort(leaves_then);
  const torch::Tensor there_then = there_.clone();
  for (size_t i = 0; i < leaves_then.size(); ++i)
    there_[leaves_then[i].second].copy_(there_then[static_cast<int64_t>(i)]);
}

std::vector<Leaf> TorchState::leaves_of(const torch::optim::Optimizer& optimizer,
                                        std::optional<torch::Device> device) const {
  std::vector<Leaf> leaves;
  call_user(cat("save of the optimizer ", name_), [&] {
    torch::serialize::OutputArchive archive;
    optimizer.save(archive);
    torch::serialize::InputArchive saved = readable(archive, device);
    read_leaves(saved, {}, numbers_of(optimizer), leaves);
    return true;
  });
  std::ranges::sort(leaves, {}, &Leaf::path);
  return leaves;
}

void TorchState::fail_form(const std::string& what) const {
  throw Error(ExitCode::kBrokenContract, "the optimizer " + name_, what,
              "keep tensors of fixed shapes and single numbers from its first step on; others belong into "
              "Task::state");
}

void TorchState::take(const torch::optim::Optimizer& from, int64_t steps) {
  const torch::NoGradGuard no_gradients;
  steps_.fill_(steps);
  there_.zero_();
  for (const torch::Tensor& held : held_)
    if (held.defined()) held.zero_();
  if (steps == 0) return;
  for (const Leaf& leaf : leaves_of(from, torch::kCPU)) {
    const std::string where = join(leaf.path, ".");
    const auto known = std::ranges::find(form_, leaf.path, &Leaf::path);
    if (known == form_.end()) fail_form(cat("keeps ", where, ", which it did not after its first step"));
    const auto i = known - form_.begin();
    there_[i].fill_(1);
    const torch::Tensor& held = held_[static_cast<size_t>(i)];
    if (!held.defined()) {
      if (leaf.archive != known->archive) fail_form(cat("changes the form of ", where));
      if (leaf.archive) continue;
      if (leaf.value.tagKind() != known->value.tagKind() || !(leaf.value == known->value))
        fail_form(cat("changes ", where, ", which is neither a tensor nor a number"));
      continue;
    }
    if (leaf.value.isTensor() != known->value.isTensor() ||
        (leaf.value.isTensor() && leaf.value.toTensor().sizes() != held.sizes()))
      fail_form(cat("changes the shape of ", where));
    if (leaf.value.isTensor()) held.copy_(leaf.value.toTensor());
    if (leaf.value.isInt()) held.fill_(leaf.value.toInt());
    if (leaf.value.isDouble()) held.fill_(leaf.value.toDouble());
    if (leaf.value.isBool()) held.fill_(leaf.value.toBool());
  }
}

void TorchState::give(torch::optim::Optimizer& to) const {
  const torch::NoGradGuard no_gradients;
  ArchiveFolder root;
  for (size_t i = 0; i < form_.size(); ++i) {
    if (there_[static_cast<int64_t>(i)].item<int>() == 0) continue;
    ArchiveFolder* folder = &root;
    const std::vector<std::string>& path = form_[i].path;
    for (size_t word = 0; word + (form_[i].archive ? 0 : 1) < path.size(); ++word)
      folder = &folder->folders[path[word]];
    if (form_[i].archive) continue;
    c10::IValue value = form_[i].value;
    if (value.isTensor()) value = held_[i].to(value.toTensor().device(), held_[i].scalar_type(), false, true);
    if (value.isInt()) value = held_[i].item<int64_t>();
    if (value.isDouble()) value = held_[i].item<double>();
    if (value.isBool()) value = held_[i].item<bool>();
    folder->values[path.back()] = std::move(value);
  }
  call_user(cat("load of the optimizer ", name_), [&] {
    torch::serialize::OutputArchive archive;
    root.write_to(archive);
    torch::serialize::InputArchive saved = readable(archive, std::nullopt);
    to.load(saved);
    return true;
  });
}

}  // namespace autotrain
