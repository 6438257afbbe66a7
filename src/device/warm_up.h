#pragma once

#include <torch/types.h>

#include <string>
#include <vector>

namespace autotrain {

/// Starts the thread pool and loads oneDNN and the matrix library on throw-away tensors, so that
/// their stacks, arenas and compiled kernels belong to the start of the process and to nobody's
/// budget, and no thread has to be started once memory is short.
void warm_up_cpu();

/// Where a GPU's libraries are warmed up.
struct GpuWarmUp {
  torch::Device device;
  at::Generator generator;                       ///< of that device, and nobody else's
  std::vector<torch::ScalarType> products = {};  ///< types whose products are computed
};

/// Has a GPU's libraries load their code and take the workspaces that they keep for each thread, autograd's
/// among them: what nearly every model needs passes forward and backward on throw-away tensors. Does not wait
/// for the device. Returns the names of passes that this device or build cannot make, which is no error.
/// @throws what means that memory ran out.
std::vector<std::string> warm_up_gpu(const GpuWarmUp& how);

}  // namespace autotrain
