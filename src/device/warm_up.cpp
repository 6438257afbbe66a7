#include "device/warm_up.h"

#include <torch/types.h>

namespace autotrain {

void warm_up_cpu() {
  // Its own generator: the run's must not have moved.
  auto generator = at::make_generator<at::CPUGeneratorImpl>(0);
  const auto draw = [&](at::IntArrayRef shape) { return at::randn(shape, generator); };
  at::AutoGradMode with_gradients(true);
  const at::Tensor square = draw({512, 512});
  at::relu(square.matmul(square)).sum().item<float>();
  const at::Tensor image = draw({4, 8, 16, 16}).requires_grad_();
  const at::Tensor kernel = draw({8, 8, 3, 3});
  at::conv2d(image, kernel, {}, 1, 1).sum().backward();
}

}  // namespace autotrain
