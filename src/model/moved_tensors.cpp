#include "model/moved_tensors.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "autotrain/error.h"
#include "model/recompute_scope.h"

namespace autotrain {
namespace {

using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;

constexpr size_t kFetchedAhead = 2;

// All bytes that a tensor's memory has.
torch::Tensor bytes_of_memory(const torch::Tensor& tensor) {
  const auto size = static_cast<int64_t>(tensor.storage().nbytes());
  return at::empty({0}, tensor.options().dtype(torch::kByte)).set_(tensor.storage(), 0, {size}, {1});
}

std::shared_ptr<MovedTensors>& of_this_thread() {
  thread_local std::shared_ptr<MovedTensors> moved;
  return moved;
}

}  // namespace

// What a tensor's count of changes was.
struct MovedTensors::Version {
  explicit Version(const torch::Tensor& tensor)
      : counter(tensor.unsafeGetTensorImpl()->version_counter()), count(counter.current_version()) {}
  bool holds() const { return counter.current_version() == count; }
  c10::VariableVersion counter;
  uint32_t count;
};

struct MovedTensors::Place {
  Place(const torch::Tensor& tensor, torch::Tensor in_main_memory, size_t its_number)
      : host(std::move(in_main_memory)),
        device(tensor.storage().getWeakStorageImpl()),
        version(tensor),
        number(its_number) {}

  torch::Tensor host;  // [bytes] uint8
  WeakStorage device;  // where it was, and then where it was brought back to
  Version version;     // of the tensor that was moved first
  size_t number;       // in the order in which they were moved
  std::optional<HostMover::Arrival> coming = {};
};

class MovedTensors::Moved {
 public:
  Moved(std::shared_ptr<Place> its_place, const torch::Tensor& tensor)
      : place(std::move(its_place)),
        version(tensor),
        sizes(tensor.sizes().vec()),
        strides(tensor.strides().vec()),
        offset(tensor.storage_offset()),
        options(tensor.options()) {}

  std::shared_ptr<Place> place;
  Version version;
  std::vector<int64_t> sizes, strides;
  int64_t offset;  // in elements
  torch::TensorOptions options;
};

MovedTensors::MovedTensors(std::shared_ptr<HostMover> mover, const std::vector<torch::Tensor>& stay,
                           int64_t least_bytes)
    : mover_(std::move(mover)), least_bytes_(least_bytes) {
  for (const torch::Tensor& tensor : stay) {
    if (tensor.defined() && tensor.has_storage()) stay_.insert(tensor.storage().unsafeGetStorageImpl());
  }
}

MovedTensors::~MovedTensors() = default;

// A view that is conjugate or negative only by a mark on it would come back without the mark.
bool MovedTensors::stays(const torch::Tensor& tensor) const {
  return !tensor.defined() || !tensor.has_storage() || tensor.is_inference() || tensor.is_conj() ||
         tensor.is_neg() || tensor.device() != mover_->device() ||
         static_cast<int64_t>(tensor.storage().nbytes()) < std::max<int64_t>(1, least_bytes_) ||
         stay_.contains(tensor.storage().unsafeGetStorageImpl());
}

std::shared_ptr<MovedTensors::Place> MovedTensors::place_of(const torch::Tensor& tensor) {
  const c10::StorageImpl* const storage = tensor.storage().unsafeGetStorageImpl();
  std::weak_ptr<Place>& known = of_memory_[storage];
  std::shared_ptr<Place> place = known.lock();
  // Another tensor may have the address by now, and the same one other numbers.
  const bool same = place && place->device.lock().get() == storage && place->version.holds() &&
                    place->version.count == Version(tensor).count;
  if (same) return place;
  place = std::make_shared<Place>(tensor, mover_->to_host(bytes_of_memory(tensor)), places_.size());
  known = place;
  places_.push_back(place);
  return place;
}

std::shared_ptr<const MovedTensors::Moved> MovedTensors::move(const torch::Tensor& tensor) {
  if (stays(tensor)) return nullptr;
  const std::lock_guard lock(mutex_);
  return std::make_shared<const Moved>(place_of(tensor), tensor);
}

c10::Storage MovedTensors::on_device(Place& place) {
  if (const c10::intrusive_ptr<c10::StorageImpl> there = place.device.lock()) return c10::Storage(there);
  HostMover::Arrival arrival =
      place.coming ? *std::exchange(place.coming, std::nullopt) : mover_->to_device(place.host);
  arrival.await();
  place.device = arrival.bytes.storage().getWeakStorageImpl();
  return arrival.bytes.storage();
}

void MovedTensors::fetch_before(size_t number) {
  for (size_t ahead = 0; number > 0 && ahead < kFetchedAhead;) {
    const std::shared_ptr<Place> place = places_[--number].lock();
    if (!place || place->device.use_count() > 0) continue;
    if (!place->coming) place->coming = mover_->to_device(place->host);
    ++ahead;
  }
}

torch::Tensor MovedTensors::back(const Moved& moved) {
  if (!moved.version.holds())
    throw Error(ExitCode::kBrokenContract, "execution.offload",
                "a tensor that the backward pass needs was changed in place",
                "set execution.offload: false, with which PyTorch says where");
  const torch::NoGradGuard no_gradients;
  const std::lock_guard lock(mutex_);
  const c10::Storage storage = on_device(*moved.place);
  fetch_before(moved.place->number);
  return at::empty({0}, moved.options).set_(storage, moved.offset, moved.sizes, moved.strides);
}

OffloadScope::OffloadScope(const std::shared_ptr<HostMover>& mover, const torch::nn::Module& module,
                           const Batch& batch, int64_t least_bytes) {
  if (mover == nullptr) return;
  install_saved_tensor_hooks();
  std::vector<torch::Tensor> stay = module.parameters(/*recurse=*/true);
  for (const auto& tensors : {module.buffers(/*recurse=*/true), batch.tensors()})
    stay.insert(stay.end(), tensors.begin(), tensors.end());
  of_this_thread() = std::make_shared<MovedTensors>(mover, stay, least_bytes);
}

OffloadScope::~OffloadScope() {
  of_this_thread().reset();
}

const std::shared_ptr<MovedTensors>& moved_tensors() {
  return of_this_thread();
}

namespace {

class MovingHooks final : public torch::autograd::SavedVariableHooks {
 public:
  explicit MovingHooks(std::shared_ptr<MovedTensors> all) : all_(std::move(all)) {}

  void call_pack_hook(const at::Tensor& tensor) override {
    const torch::Tensor detached = tensor.detach();
    moved_ = all_->move(detached);
    if (!moved_) stayed_ = detached;
  }

  at::Tensor call_unpack_hook() override { return moved_ ? all_->back(*moved_) : stayed_; }

 private:
  std::shared_ptr<MovedTensors> all_;
  std::shared_ptr<const MovedTensors::Moved> moved_;
  torch::Tensor stayed_;
};

}  // namespace

std::unique_ptr<torch::autograd::SavedVariableHooks> moving_hooks() {
  const std::shared_ptr<MovedTensors>& all = moved_tensors();
  return all ? std::make_unique<MovingHooks>(all) : nullptr;
}

}  // namespace autotrain
