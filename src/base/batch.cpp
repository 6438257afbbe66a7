#include "autotrain/batch.h"

namespace autotrain {

Batch Batch::to(torch::Device device) const {
  const auto move = [&](const torch::Tensor& tensor) {
    return tensor.defined() ? tensor.to(device, /*non_blocking=*/true) : tensor;
  };
  return {move(inputs), move(targets), samples};
}

}  // namespace autotrain
