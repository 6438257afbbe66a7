#pragma once

#include <c10/core/Device.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "autotrain/amounts.h"
#include "autotrain/batch.h"
#include "autotrain/memory.h"
#include "device/host_copies.h"

namespace autotrain {

/// A budget in bytes, and where it comes from: "asked", "50 % of available memory", …
struct ResolvedBudget {
  int64_t bytes = 0;
  std::string source = {};
};

struct DeviceOptions {
  std::string device = "auto";  ///< auto | cpu | cuda | cuda:N
  Budget budget;
  std::optional<ResolvedBudget> settled = {};  ///< the budget of a plan that was made before; it stands
  int64_t threads = 0;                         ///< on the CPU; 0: the physical cores this process may use
  std::optional<bool> deterministic = true;    ///< ask for deterministic kernels; unset: on a CPU only
  int64_t local_rank = 0;                      ///< among the processes of this run on this machine
  int64_t ranks_here = 1;                      ///< how many there are; on a CPU they share its memory
};

/// Where a run computes: one device, its memory and its budget. While it lives, LibTorch allocates
/// CPU memory through the run's allocator if the device is the CPU.
class Device {
 public:
  explicit Device(ResolvedBudget budget) : budget_(std::move(budget)) {}
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  virtual c10::Device torch_device() const = 0;

  /// The model as the maker names it: "AMD EPYC 9R14", "NVIDIA H200".
  virtual std::string name() const = 0;

  /// Which of its host's devices it is, whatever number a process has for it: "0000:3b:00.0". Empty for a
  /// CPU.
  virtual std::string bus_id() const { return ""; }

  /// Driver, runtime and library versions that numeric results and memory depend on.
  virtual std::string software() const = 0;

  virtual bool has_native_bf16() const = 0;

  /// Whether products of float32 can be computed in TF32 (operands of 10 bits), and whether they may be from
  /// now on, in the whole process. A CPU has none.
  virtual bool has_tf32() const { return false; }
  virtual void allow_tf32(bool) {}

  /// Waits until all queued work is done. Nothing to wait for on a CPU.
  virtual void synchronize() const = 0;

  /// The batch on this device. A GPU copies it beside the work that is queued already, on a stream of its
  /// own; what is queued from now on waits for the copy, the host does not (when the batch is in pinned
  /// memory). No more than three batches are there for work that is not done. What is on the device already
  /// must have been made on its default stream.
  virtual Batch upload(const Batch& batch) = 0;

  /// Copies of tensors in host memory. A GPU copies them after the work that is queued already and before
  /// what is queued from now on, so that this may change them; the host does not wait, but for the memory
  /// when it is got first. That is kept for the next time: copies that are held until then cost as much
  /// again.
  virtual std::unique_ptr<HostCopies> copy_to_host(const std::vector<torch::Tensor>& tensors) {
    return copy_to_plain_memory(tensors);
  }

  /// Of host memory that is kept for it.
  virtual int64_t kept_host_bytes() const { return 0; }

  virtual MemoryMeter& memory() = 0;

  /// Bytes that the run may use above the meter's baseline.
  int64_t budget_bytes() const { return budget_.bytes; }
  const std::string& budget_source() const { return budget_.source; }

  /// Puts `budget` in the place of the one so far, and in force as the meter's limit.
  void set_budget(ResolvedBudget budget) {
    budget_ = std::move(budget);
    memory().set_limit(budget_.bytes);
  }

  /// How many shapes the inputs of uploaded batches had so far, for each of which libraries may keep kernels
  /// outside the allocator; 0: this device does not count them.
  virtual int64_t shapes_met() const { return 0; }

  /// Memory of the device that was in use before this run: other processes and, on CUDA, this one's
  /// context. In bytes.
  virtual int64_t used_by_others_bytes() const = 0;

 private:
  ResolvedBudget budget_;
};

/// Opens the device of a run and fixes its budget.
/// @throws Error(kBadRecipe) for a device that does not exist here, Error(kDoesNotFit) when there is
/// no memory for any budget.
std::unique_ptr<Device> open_device(const DeviceOptions& options);

/// Physical cores that this process may use: its affinity, without second hyper-threads, and no
/// more than its cgroup's CPU quota.
int64_t usable_cores();

}  // namespace autotrain
