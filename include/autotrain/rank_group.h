#pragma once

#include <c10/core/Device.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <cstdint>

namespace autotrain {

/// A process group of c10d that the caller made, for `TrainerOptions::group`: the ranks of the run are those
/// of the group, and whatever they exchange goes through it.
///
/// The group stays the caller's. It is neither shut down nor aborted, whatever happens to the run, and may be
/// used again when the trainer is gone; while it lives, nobody else may use it. After a run that lost a rank
/// the group is what c10d leaves of it: a call may still wait in it. A watchdog of its own (NCCL's) stays as
/// the caller has set it (docs/ranks.md).
///
/// Ranks that are threads of one process need TORCH_FR_BUFFER_SIZE=0 in their environment: LibTorch's
/// recorder of collective calls enters each new group without a lock, and may crash there.
///
/// Only programs that hand over a group need this header, and LibTorch's headers of c10d with it.
class RankGroup {
 public:
  /// @param group of one backend: gloo for tensors of main memory, NCCL for those of GPUs.
  /// @param store where the ranks exchange notes, beside the group: one that all of them reach, as new as the
  /// group (a PrefixStore of its own will do), and able to append (TCPStore, HashStore). It is used by
  /// connections of its own (`Store::clone`), and whoever serves it must do so until all ranks have left.
  /// @throws Error(kUsage) when either is null or the store cannot append.
  RankGroup(c10::intrusive_ptr<c10d::Backend> group, c10::intrusive_ptr<c10d::Store> store);

  /// A group of several backends, with the store that it was made with, as Python's `init_process_group`
  /// makes it. @throws Error(kUsage) likewise, and when it has no store.
  explicit RankGroup(c10::intrusive_ptr<c10d::ProcessGroup> group);

  int64_t rank() const { return rank_; }
  int64_t size() const { return size_; }  ///< how many ranks there are

  /// What exchanges tensors of this device. @throws Error(kUsage) when the group has nothing that does.
  c10::intrusive_ptr<c10d::Backend> backend_for(c10::Device device) const;

  const c10::intrusive_ptr<c10d::Store>& store() const { return store_; }

  /// The group, to tell it from others.
  const void* identity() const;

 private:
  void check_store() const;

  c10::intrusive_ptr<c10d::Backend> backend_;     // null: `group_` has them
  c10::intrusive_ptr<c10d::ProcessGroup> group_;  // null: there is but the one
  c10::intrusive_ptr<c10d::Store> store_;
  int64_t rank_ = 0, size_ = 1;
};

}  // namespace autotrain
