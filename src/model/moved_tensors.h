#pragma once

#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>
#include <torch/nn/module.h>

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "autotrain/batch.h"
#include "device/host_mover.h"

namespace autotrain {

/// What one forward pass keeps for its backward pass, in main memory until that needs it. Memory that several
/// tensors share is moved once; what somebody else still has on the device is not brought back. While one is
/// brought back, those that were moved before it follow: a backward pass mostly goes in reverse.
class MovedTensors {
 public:
  /// A tensor that was moved.
  class Moved;

  /// @param stay tensors that are on the device anyway, such as parameters. @param least_bytes of memory that
  /// are worth it.
  MovedTensors(std::shared_ptr<HostMover> mover, const std::vector<torch::Tensor>& stay, int64_t least_bytes);
  ~MovedTensors();
  MovedTensors(const MovedTensors&) = delete;
  MovedTensors& operator=(const MovedTensors&) = delete;

  /// Null: it stays. The device's memory is free when the last tensor that has it is gone.
  std::shared_ptr<const Moved> move(const torch::Tensor& tensor);

  /// The same numbers, lying as they lay. In any thread, as often as asked for.
  /// @throws Error(kBrokenContract) when the tensor was changed in place since.
  torch::Tensor back(const Moved& moved);

 private:
  struct Version;  // a tensor's count of changes
  struct Place;    // some memory of the device

  bool stays(const torch::Tensor& tensor) const;
  std::shared_ptr<Place> place_of(const torch::Tensor& tensor);
  c10::Storage on_device(Place& place);
  void fetch_before(size_t number);

  const std::shared_ptr<HostMover> mover_;
  std::set<const c10::StorageImpl*> stay_;
  const int64_t least_bytes_;
  std::mutex mutex_;  // backward passes of a device have a thread of their own
  std::vector<std::weak_ptr<Place>> places_;
  std::map<const c10::StorageImpl*, std::weak_ptr<Place>> of_memory_;  // the latest
};

/// While it lives, autograd in this thread moves what it keeps for a backward pass, and so do passes of
/// exported models. Without a mover it does nothing. Scopes do not nest.
class OffloadScope {
 public:
  static constexpr int64_t kWorthMoving = 1 << 20;  // bytes

  OffloadScope(const std::shared_ptr<HostMover>& mover, const torch::nn::Module& module, const Batch& batch,
               int64_t least_bytes = kWorthMoving);
  ~OffloadScope();
  OffloadScope(const OffloadScope&) = delete;
  OffloadScope& operator=(const OffloadScope&) = delete;
};

/// Of this thread's scope; null without one.
const std::shared_ptr<MovedTensors>& moved_tensors();

/// For a tensor that autograd keeps within this thread's scope.
std::unique_ptr<torch::autograd::SavedVariableHooks> moving_hooks();

}  // namespace autotrain
