#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>
#include <signal.h>
#include <torch/types.h>

#include <cfenv>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "device/tf32.h"

namespace autotrain {

/// All that a run changes of its process, as it was at one time: generators of GPUs, threads, determinism,
/// choice of kernels and default type; the variables of the environment that libraries read when they are
/// first used; the signal of a lost connection; which GPU the calling thread uses, and how it rounds. What
/// cannot be put back is not here: LibTorch's CPU allocator stays installed, and so do glibc's settings of
/// its heap.
class ProcessSettings {
 public:
  /// @param gpus those of GPUs too, which starts the driver where there are some.
  static ProcessSettings now(bool gpus);

  void put_in_force() const;

 private:
  struct Gpus {
    bool benchmark = false, deterministic = false;
    Tf32Settings tf32 = {};
    c10::Device current = torch::kCUDA;  // of the calling thread
  };

  std::vector<std::pair<at::Generator, torch::Tensor>> generators_;  // of GPUs
  int threads_ = 1;
  bool deterministic_ = false, warns_only_ = false, fills_uninitialised_ = true;
  c10::ScalarType default_type_ = c10::ScalarType::Float;
  std::optional<Gpus> gpus_;
  std::vector<std::pair<const char*, std::optional<std::string>>> environment_;
  struct sigaction broken_pipe_ {};
  std::fenv_t rounding_{};
};

}  // namespace autotrain
