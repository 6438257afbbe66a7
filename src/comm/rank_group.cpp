#include "autotrain/rank_group.h"

#include <utility>

#include "autotrain/error.h"

namespace autotrain {
namespace {

constexpr const char* kWhere = "RankGroup";

template <class Group>
c10::intrusive_ptr<Group> not_null(c10::intrusive_ptr<Group> group) {
  if (group) return group;
  throw Error(ExitCode::kUsage, kWhere, "the process group is null",
              "hand over a group that was made, and not destroyed since");
}

}  // namespace

RankGroup::RankGroup(c10::intrusive_ptr<c10d::Backend> group, c10::intrusive_ptr<c10d::Store> store)
    : backend_(not_null(std::move(group))),
      store_(std::move(store)),
      rank_(backend_->getRank()),
      size_(backend_->getSize()) {
  check_store();
}

RankGroup::RankGroup(c10::intrusive_ptr<c10d::ProcessGroup> group)
    : group_(not_null(std::move(group))),
      store_(group_->getStore()),
      rank_(group_->getRank()),
      size_(group_->getSize()) {
  check_store();
}

// Without `append` the notes of all ranks could not gather in one value: one would overwrite the other's.
void RankGroup::check_store() const {
  if (!store_) {
    throw Error(ExitCode::kUsage, kWhere, "there is no store where the group's ranks could exchange notes",
                "hand over the backend together with the store that it was made with");
  }
  if (store_->hasExtendedApi()) return;
  throw Error(ExitCode::kUsage, kWhere, "the store cannot append, by which ranks exchange notes",
              "hand over a TCPStore, or a PrefixStore of one");
}

c10::intrusive_ptr<c10d::Backend> RankGroup::backend_for(c10::Device device) const {
  const auto refuse = [&](const std::string& why) {
    return Error(ExitCode::kUsage, kWhere,
                 "the process group exchanges no tensors of " + device.str() + ": " + why,
                 "hand over a group of gloo for a CPU and of NCCL for GPUs, or set execution.device");
  };
  if (backend_) {
    if (device.is_cpu() && backend_->getBackendName() == "nccl") throw refuse("it is one of NCCL");
    return backend_;
  }
  try {
    return group_->getBackend(device.type());
  } catch (const c10::Error& error) {
    throw refuse(error.what_without_backtrace());
  }
}

const void* RankGroup::identity() const {
  return backend_ ? static_cast<const void*>(backend_.get()) : static_cast<const void*>(group_.get());
}

}  // namespace autotrain
