#pragma once

#include <ATen/record_function.h>
#include <torch/types.h>

#include <algorithm>
#include <unordered_map>
#include <vector>

namespace autotrain {

// What an observed operator takes and returns. The interpreter of TorchScript calls operators with the whole
// of its stack, which RecordFunction then has as their inputs and outputs: what is the operator's own stands
// last, and below it lies what others are still to take.

inline c10::ArrayRef<const c10::IValue> inputs_of(const at::RecordFunction& function) {
  const c10::ArrayRef<const c10::IValue> all = function.inputs();
  return all.slice(all.size() - std::min(all.size(), function.num_inputs()));
}

/// Valid for as long as the call is observed.
inline c10::ArrayRef<c10::IValue> outputs_of(const at::RecordFunction& function) {
  const c10::ArrayRef<c10::IValue> all = function.outputs();
  return all.slice(all.size() - std::min(all.size(), function.num_outputs()));
}

/// Calls `act(tensor)` with a value's tensor, or with each of its list.
template <class Act>
void for_tensors_of(const c10::IValue& value, Act act) {
  if (value.isTensor()) act(value.toTensor());
  if (!value.isTensorList()) return;
  for (const torch::Tensor& tensor : value.toTensorVector()) act(tensor);
}

inline bool share_memory(const torch::Tensor& a, const torch::Tensor& b) {
  return a.defined() && b.defined() && a.has_storage() && b.has_storage() &&
         a.storage().unsafeGetStorageImpl() == b.storage().unsafeGetStorageImpl();
}

/// What operators write to, by their schemas. A schema is a value that is copied for whoever asks, so each is
/// read once; its name lies where it is for good, and tells it from those of other overloads.
class WrittenArguments {
 public:
  /// Calls `act(tensor)` with each tensor that the operator is about to write to.
  template <class Act>
  void for_each(const at::RecordFunction& function, Act act) {
    const std::vector<size_t>& written = of(function);
    if (written.empty()) return;
    const c10::ArrayRef<const c10::IValue> inputs = inputs_of(function);
    for (const size_t i : written) {
      if (i < inputs.size()) for_tensors_of(inputs[i], act);
    }
  }

 private:
  const std::vector<size_t>& of(const at::RecordFunction& function) {
    const auto [known, is_new] = known_.try_emplace(function.name());
    if (!is_new) return known->second;
    if (const auto schema = function.operator_schema()) {
      for (size_t i = 0; i < schema->arguments().size(); ++i) {
        const c10::AliasInfo* const alias = schema->arguments()[i].alias_info();
        if (alias != nullptr && alias->isWrite()) known->second.push_back(i);
      }
    }
    return known->second;
  }

  std::unordered_map<const void*, std::vector<size_t>> known_;
};

}  // namespace autotrain
