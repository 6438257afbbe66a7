#include "step/changing_buffers.h"

#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "base/units.h"
#include "device/memory_phase.h"
#include "step/operator_values.h"

namespace autotrain {
namespace {

constexpr int64_t kLargeFrom = kMiB;

// Batch and instance normalisation write their statistics without saying so: neither their schemas nor the
// buffers' versions tell.
bool writes_silently(std::string_view operation) {
  return operation.find("batch_norm") != std::string_view::npos ||
         operation.find("instance_norm") != std::string_view::npos;
}

bool writes_to(const c10::FunctionSchema& schema, size_t argument) {
  if (argument >= schema.arguments().size()) return false;
  const c10::AliasInfo* const alias = schema.arguments()[argument].alias_info();
  return alias != nullptr && alias->isWrite();
}

bool share_memory(const torch::Tensor& a, const torch::Tensor& b) {
  return a.defined() && b.defined() && a.has_storage() && b.has_storage() &&
         a.storage().unsafeGetStorageImpl() == b.storage().unsafeGetStorageImpl();
}

using Buffers = std::vector<torch::Tensor>;

// To those of its type and device.
void sort_in(const torch::Tensor& tensor, std::vector<Buffers>& kinds) {
  const auto alike = [&](const Buffers& kind) {
    return kind[0].scalar_type() == tensor.scalar_type() && kind[0].device() == tensor.device();
  };
  const auto kind = std::ranges::find_if(kinds, alike);
  (kind == kinds.end() ? kinds.emplace_back() : *kind).push_back(tensor);
}

}  // namespace

void ChangingBuffers::find_buffers() {
  small_.clear(), live_.clear();  // of an attempt for which memory did not suffice
  copies_.clear(), large_.clear();
  sound_.clear();
  std::vector<Buffers> kinds;
  std::vector<NamedTensor> kept;
  for (const auto& item : module_.named_buffers()) kept.push_back({item.key(), item.value()});
  if (task_ != nullptr) {
    for (NamedTensor& item : task_->state()) kept.push_back(std::move(item));
  }
  for (const auto& [name, buffer] : kept) {
    if (static_cast<int64_t>(buffer.nbytes()) >= kLargeFrom) {
      large_.push_back({.buffer = buffer});
    } else {
      sort_in(buffer, kinds);
      // A mask may hold minus infinity for good.
      if (buffer.is_floating_point() && buffer.numel() > 0 && at::isfinite(buffer).all().item<bool>())
        sound_.push_back({name, buffer});
    }
  }
  for (const torch::Tensor& parameter : module_.parameters())
    large_.push_back({.buffer = parameter, .parameter = true});
  const PhaseScope phase(MemoryPhase::kBufferCopies);
  for (Buffers& kind : kinds) {
    const bool selects = !kind[0].is_cpu();
    small_.emplace_back(std::move(kind), selects);
  }
  found_ = true;
}

void ChangingBuffers::add_copy(const torch::Tensor& buffer) {
  const PhaseScope phase(MemoryPhase::kBufferCopies);
  torch::Tensor copy = torch::empty_like(buffer);  // before anything is changed: it may be refused
  copies_.push_back(std::move(copy));
  live_.push_back(buffer);
}

void ChangingBuffers::save() {
  const torch::NoGradGuard no_gradients;
  failure_ = nullptr;
  uncopied_ = false;
  if (found_) {
    note_unseen_changes();
  } else {
    find_buffers();
  }
  for (FlatCopies& copies : small_) copies.save();
  if (!live_.empty()) at::_foreach_copy_(copies_, live_);
  for (Large& large : large_) large.version = large.buffer._version();
}

void ChangingBuffers::note_unseen_changes() {
  for (size_t i = 0; i < large_.size();) {
    const Large& large = large_[i];
    if (large.changed || (!large.parameter && large.buffer._version() != large.version)) {
      move_to_copied(i);
    } else {
      ++i;
    }
  }
}

void ChangingBuffers::note_changed_parameters() {
  for (Large& large : large_) large.changed |= large.parameter && large.buffer._version() != large.version;
}

void ChangingBuffers::move_to_copied(size_t i) {
  add_copy(large_[i].buffer.detach());
  large_.erase(large_.begin() + static_cast<std::ptrdiff_t>(i));
}

void ChangingBuffers::start(const at::RecordFunction& operation) {
  if (large_.empty() || copying_) return;
  const auto schema = operation.operator_schema();
  const bool all = writes_silently(operation.name());
  const c10::ArrayRef<const c10::IValue> inputs = inputs_of(operation);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!all && !(schema && writes_to(*schema, i))) continue;
    // Normalisation writes to none of its parameters.
    if (inputs[i].isTensor()) copy_before_change(inputs[i].toTensor(), !all);
    if (!inputs[i].isTensorList()) continue;
    for (const torch::Tensor& tensor : inputs[i].toTensorVector()) copy_before_change(tensor, !all);
  }
}

// An exception here would be swallowed by LibTorch.
void ChangingBuffers::copy_before_change(const torch::Tensor& written, bool parameters) {
  copying_ = true;
  try {
    const torch::NoGradGuard no_gradients;
    for (size_t i = 0; i < large_.size();) {  // views of one memory may be several of them
      if ((large_[i].parameter && !parameters) || !share_memory(large_[i].buffer, written)) {
        ++i;
        continue;
      }
      move_to_copied(i);
      copies_.back().copy_(live_.back());
    }
  } catch (...) {
    uncopied_ = true;
    failure_ = std::current_exception();
  }
  copying_ = false;
}

// By the largest of each, which no square can make infinite.
torch::Tensor ChangingBuffers::nought() const {
  if (sound_.empty()) return {};
  const torch::NoGradGuard no_gradients;
  std::vector<Buffers> kinds;
  for (const NamedTensor& each : sound_) sort_in(each.tensor.detach(), kinds);
  torch::Tensor sum;
  for (const Buffers& kind : kinds) {
    const torch::Tensor largest = at::stack(at::_foreach_norm(kind, INFINITY)).to(torch::kFloat64);
    const torch::Tensor nought = (largest - largest).sum();
    sum = sum.defined() ? sum + nought : nought;
  }
  return sum;
}

std::string ChangingBuffers::first_not_finite() const {
  for (const NamedTensor& each : sound_) {
    if (!at::isfinite(each.tensor).all().item<bool>()) return each.name;
  }
  return "";
}

void ChangingBuffers::rethrow_failure() {
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void ChangingBuffers::restore() {
  failure_ = nullptr;
  const torch::NoGradGuard no_gradients;
  for (FlatCopies& copies : small_) copies.restore();
  if (!live_.empty()) at::_foreach_copy_(live_, copies_);
}

void ChangingBuffers::restore_unless(const torch::Tensor& keep) {
  if (keep.is_cpu()) {
    if (!keep.item<bool>()) restore();
    return;
  }
  const torch::NoGradGuard no_gradients;
  for (FlatCopies& copies : small_) copies.restore_unless(keep);
  for (size_t i = 0; i < live_.size(); ++i) {
    at::where_out(copies_[i], keep, live_[i], copies_[i]);  // in place: nothing is allocated
    live_[i].copy_(copies_[i]);
  }
}

}  // namespace autotrain
