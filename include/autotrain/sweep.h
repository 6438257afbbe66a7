#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "autotrain/amounts.h"
#include "autotrain/batch.h"
#include "autotrain/sweep_result.h"

namespace autotrain {

/// What a sweep of the caller's own code calls.
struct SweepSubject {
  /// The outputs of a batch that is on the device. Called on the thread that calls `sweep`, without
  /// gradients.
  std::function<torch::Tensor(const Batch& batch)> forward;

  /// So many samples in main memory: inputs [samples, …] of any dtype, and what else `forward` reads.
  std::function<Batch(int64_t samples)> make_batch;

  /// Moved to the device, and in evaluation mode meanwhile; its parameters count as weights. Null: `forward`
  /// sees to its weights itself, and nothing is predicted.
  torch::nn::Module* module = nullptr;
};

/// How it is measured.
struct SweepOptions {
  std::vector<int64_t> batches = {};  ///< in any order; empty: 1, 2, 4, … 4096, until nothing is gained
  int64_t rounds = 2;                 ///< measurements of each batch, every other one from the largest down
  double max_seconds = 2;             ///< of the repeats of one measurement
  std::optional<double> latency_ms = {};  ///< also say what stays within it at its 99th percentile
  bool roofline = true;  ///< also measure the device's peaks, which takes seconds, and predict the knee
  std::string device = "auto";  ///< auto | cpu | cuda | cuda:N
  Budget budget = {};           ///< of memory, beyond which a batch does not fit
  int64_t threads = 0;          ///< on the CPU; 0: the physical cores this process may use
};

/// Measures forward passes at several batch sizes in this process, by the mechanism of `autotrain sweep`: a
/// call is repeated until its median is known to ±2.5 % or the time is up, memory is counted above what the
/// process had when this was called, and a batch that memory refuses is a point with a failure. On a CPU,
/// LibTorch allocates through this call's own allocator meanwhile: not to be called while a Trainer runs.
/// @throws Error(kUsage) when there is no function, or a batch below 1; Error(kBadData) when `make_batch`
/// gives another number of samples; Error(kDoesNotFit) when the module alone does not fit; Error(kBadRecipe)
/// when a prediction is asked for and one sample cannot be computed; what `forward` and `make_batch` throw
/// that does not mean "out of memory".
SweepResult sweep(const SweepSubject& subject, const SweepOptions& options = {});

/// The same of any module with `forward(Tensor) → Tensor`.
/// @param make_inputs so many samples in main memory: [samples, …].
template <class Net>
SweepResult sweep(Net& net, std::function<torch::Tensor(int64_t samples)> make_inputs,
                  const SweepOptions& options = {}) {
  static_assert(std::is_base_of_v<torch::nn::Module, Net>, "net must be a torch::nn::Module");
  return sweep(SweepSubject{.forward = [&net](const Batch& batch) { return net.forward(batch.inputs); },
                            .make_batch = [&make_inputs](int64_t samples) -> Batch {
                              return {.inputs = make_inputs(samples), .samples = samples};
                            },
                            .module = &net},
               options);
}

}  // namespace autotrain
