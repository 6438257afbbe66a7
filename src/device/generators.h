#pragma once

#include <torch/types.h>

#include <vector>

namespace autotrain {

/// Seeds the generators of the CPU (`cpu_generator`) and of `device`.
void seed_generators(torch::Device device, uint64_t key);

/// Seeds them for one micro-batch: what a model draws
/// depends only on (seed, window, offset of the micro-batch in its window).
void seed_for_micro_batch(torch::Device device, uint64_t seed, int64_t window, int64_t offset);

/// Where a task acts beside its loss.
enum class PlaceToAct : uint64_t { kBeginUpdate, kBeforeStep, kAfterStep, kEvaluate };

/// Seeds them for one of these: what a task draws there depends only on (seed, place, samples of the stream
/// before the update, of the data before the batch of an evaluation), and is the same on all ranks.
void seed_for_place(torch::Device device, uint64_t seed, PlaceToAct place, int64_t samples);

/// The states that the generators of the CPU and of `device` have now.
class GeneratorStates {
 public:
  explicit GeneratorStates(torch::Device device);
  void put_back() const;

  /// Whether each generator is in the same state in both. Precondition: both are of one device.
  bool equal(const GeneratorStates& other) const;

 private:
  std::vector<std::pair<at::Generator, torch::Tensor>> states_;
};

/// Puts the generators of the CPU and of `device` back when the scope ends.
class GeneratorScope {
 public:
  explicit GeneratorScope(torch::Device device) : states_(device) {}
  ~GeneratorScope() { states_.put_back(); }
  GeneratorScope(const GeneratorScope&) = delete;
  GeneratorScope& operator=(const GeneratorScope&) = delete;

 private:
  const GeneratorStates states_;
};

}  // namespace autotrain
