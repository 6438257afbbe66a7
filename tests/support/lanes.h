#pragma once

#include <torch/types.h>

namespace autotrain::test {

/// Numbers of a lane, of very different sizes, so that their sum over lanes depends on the order of adding.
inline torch::Tensor lane_numbers(int64_t count, int64_t lane) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(lane) + 1);
  const torch::Tensor sizes = at::randn({count}, generator);
  return at::randn({count}, generator) * (3 * sizes).exp();
}

}  // namespace autotrain::test
