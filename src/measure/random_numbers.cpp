#include "measure/random_numbers.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/randn.h>

#include <algorithm>

#include "base/units.h"

namespace autotrain {
namespace {

constexpr int64_t kDrawn = 1'000'003;  // a prime, so that no two rows of a matrix are alike

}  // namespace

torch::Tensor random_numbers(const Device& device, torch::ScalarType type, at::IntArrayRef shape) {
  const int64_t count = c10::multiply_integers(shape);
  const torch::Tensor drawn = at::randn({std::min(count, kDrawn)},
                                        at::make_generator<at::CPUGeneratorImpl>(/*seed=*/1), torch::kFloat32)
                                  .to(torch::TensorOptions().dtype(type).device(device.torch_device()));
  return drawn.repeat({ceil_div(count, drawn.numel())}).narrow(0, 0, count).view(shape);
}

}  // namespace autotrain
