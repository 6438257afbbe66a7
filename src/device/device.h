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
#include "device/work_recorder.h"

namespace autotrain {

/// A budget in bytes, and where it comes from: "asked", "50 % of available memory", …
struct ResolvedBudget {
  int64_t bytes = 0;
  std::string source = {};
};

struct DeviceOptions {
  std::string device = "auto";  ///< auto | cpu | cuda | cuda:N
  DeviceBudgets budget;
  std::optional<ResolvedBudget> settled = {};  ///< the budget of a plan that was made before; it stands
  int64_t threads = 0;                         ///< on the CPU; 0: the physical cores this process may use

  /// Whether kernels repeat bit for bit. True: an operator that has none of the kind throws. Unset: on a CPU,
  /// and such an operator runs with a warning. For the whole process, until the next device is opened.
  std::optional<bool> deterministic = true;

  int64_t local_rank = 0;  ///< among the processes of this run on this machine
  int64_t ranks_here = 1;  ///< how many there are; on a CPU they share its memory
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
  /// memory). No more than two batches are there: the one that is worked on and the one ahead of it. What is
  /// on the device already must have been made on its current stream.
  virtual Batch upload(const Batch& batch) = 0;

  /// Uploaded batches that may be there beside the one that is worked on. A trial keeps as many alive.
  virtual int64_t batches_ahead() const { return 0; }

  /// Whether batches in main memory count in the budget.
  virtual bool counts_main_memory() const { return true; }
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

  /// What records work that the calling thread asks of this device; null: it records none, as a CPU.
  virtual std::unique_ptr<WorkRecorder> make_recorder() { return nullptr; }

  /// From now on the calling thread asks for work where the run computes: on a GPU, on a stream of the run's
  /// own, which only the thread that opened the device has by itself. Waits for what was asked elsewhere.
  virtual void use_from_this_thread() {}

  /// What other processes hold of the device's memory now, in bytes. On a GPU whose driver hides processes,
  /// all that was in use beside this one's tensors when the meter was made.
  virtual int64_t used_by_others_bytes() const = 0;

  /// What this process held of a GPU's memory when the meter was made: its context, and the code and
  /// workspaces of libraries, which are in no budget. In bytes; nothing: not known, or not a GPU.
  virtual std::optional<int64_t> own_at_start_bytes() const { return std::nullopt; }

  /// The largest budget that could be had now, with what the run holds already; for a trial beyond the
  /// budget.
  virtual int64_t obtainable_bytes() const { return budget_.bytes; }

 private:
  ResolvedBudget budget_;
};

/// Opens the device of a run and fixes its budget.
/// @throws Error(kBadRecipe) for a device that does not exist here or cannot be used, and says why;
/// Error(kDoesNotFit) when there is no memory for any budget.
std::unique_ptr<Device> open_device(const DeviceOptions& options);

}  // namespace autotrain
