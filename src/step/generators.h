#pragma once

#include <torch/types.h>

#include <vector>

namespace autotrain {

/// Seeds LibTorch's generators of the CPU and of `device` for one micro-batch: what a model draws
/// depends only on (seed, window, offset of the micro-batch in its window).
void seed_for_micro_batch(torch::Device device, uint64_t seed, int64_t window, int64_t offset);

/// Puts the generators of the CPU and of `device` back when the scope ends.
class GeneratorScope {
 public:
  explicit GeneratorScope(torch::Device device);
  ~GeneratorScope();
  GeneratorScope(const GeneratorScope&) = delete;
  GeneratorScope& operator=(const GeneratorScope&) = delete;

 private:
  std::vector<std::pair<at::Generator, torch::Tensor>> states_;
};

}  // namespace autotrain
