#include "autotrain/batch.h"

namespace autotrain {

std::vector<torch::Tensor> Batch::all_inputs() const {
  std::vector<torch::Tensor> all = {inputs};
  all.insert(all.end(), more_inputs.begin(), more_inputs.end());
  return all;
}

std::vector<torch::Tensor> Batch::tensors() const {
  std::vector<torch::Tensor> all;
  if (inputs.defined()) all.push_back(inputs);
  if (targets.defined()) all.push_back(targets);
  all.insert(all.end(), more_inputs.begin(), more_inputs.end());
  if (indices.defined()) all.push_back(indices);
  if (keys.defined()) all.push_back(keys);
  return all;
}

Batch Batch::with_each(const std::function<torch::Tensor(const torch::Tensor&)>& change) const {
  Batch changed = *this;
  if (inputs.defined()) changed.inputs = change(inputs);
  if (targets.defined()) changed.targets = change(targets);
  for (torch::Tensor& input : changed.more_inputs) input = change(input);
  if (indices.defined()) changed.indices = change(indices);
  if (keys.defined()) changed.keys = change(keys);
  return changed;
}

Batch Batch::to(torch::Device device) const {
  return with_each([&](const torch::Tensor& tensor) { return tensor.to(device, /*non_blocking=*/true); });
}

}  // namespace autotrain
