#include "autotrain/batch.h"

#include <algorithm>

#include "autotrain/error.h"
#include "base/text.h"

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
  for (const NamedTensor& each : shared) all.push_back(each.tensor);
  return all;
}

Batch Batch::with_each(const std::function<torch::Tensor(const torch::Tensor&)>& change) const {
  Batch changed = *this;
  if (inputs.defined()) changed.inputs = change(inputs);
  if (targets.defined()) changed.targets = change(targets);
  for (torch::Tensor& input : changed.more_inputs) input = change(input);
  if (indices.defined()) changed.indices = change(indices);
  if (keys.defined()) changed.keys = change(keys);
  for (NamedTensor& each : changed.shared) each.tensor = change(each.tensor);
  return changed;
}

Batch Batch::with_each_of_samples(const std::function<torch::Tensor(const torch::Tensor&)>& change) const {
  check_invariant(shared.empty(), "what samples share is not cut");
  return with_each(change);
}

const torch::Tensor& Batch::shared_tensor(const std::string& name) const {
  const auto found = std::ranges::find(shared, name, &NamedTensor::name);
  if (found != shared.end()) return found->tensor;
  std::string names;
  for (const NamedTensor& each : shared) names += cat(names.empty() ? "" : ", ", each.name);
  throw Error(ExitCode::kBrokenContract, "Batch::shared_tensor", cat("there is no ", quote(name)),
              names.empty() ? "have Dataset::get put it into Batch::shared" : "take one of: " + names);
}

Batch Batch::to(torch::Device device) const {
  return with_each([&](const torch::Tensor& tensor) { return tensor.to(device, /*non_blocking=*/true); });
}

}  // namespace autotrain
