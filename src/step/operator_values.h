#pragma once

#include <ATen/record_function.h>

#include <algorithm>

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

}  // namespace autotrain
