#include "device/host_copies.h"

namespace autotrain {

std::unique_ptr<HostCopies> copy_to_plain_memory(const std::vector<torch::Tensor>& tensors) {
  const torch::NoGradGuard no_gradients;
  std::vector<torch::Tensor> copies;
  copies.reserve(tensors.size());
  for (const torch::Tensor& tensor : tensors) {
    copies.push_back(
        torch::empty_like(tensor, torch::TensorOptions().device(torch::kCPU).requires_grad(false)));
    copies.back().copy_(tensor.detach());
  }
  return std::make_unique<HostCopies>(std::move(copies));
}

}  // namespace autotrain
