#include "step/changing_buffers.h"

#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/_foreach_max.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/units.h"
#include "device/memory_phase.h"

namespace autotrain {
namespace {

constexpr int64_t kLargeFrom = kMiB;

// Batch and instance normalisation write their statistics without saying so: neither their schemas nor the
// buffers' versions tell.
bool writes_silently(std::string_view operation) {
  return operation.find("batch_norm") != std::string_view::npos ||
         operation.find("instance_norm") != std::string_view::npos;
}

// In the same place of the same memory.
bool lie_together(const torch::Tensor& a, const torch::Tensor& b) {
  return !a.has_storage() || (share_memory(a, b) && a.storage_offset() == b.storage_offset());
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
  small_.clear(), large_.clear();  // of an attempt for which memory did not suffice
  sound_.clear();
  std::vector<Buffers> kinds;
  std::vector<NamedTensor> kept;
  for (const auto& item : module_.named_buffers()) kept.push_back({item.key(), item.value()});
  if (task_ != nullptr) {
    for (NamedTensor& item : task_->state()) kept.push_back(std::move(item));
  }
  for (const auto& [name, buffer] : kept) {
    if (static_cast<int64_t>(buffer.nbytes()) >= kLargeFrom) {
      large_.push_back({.name = name, .buffer = buffer});
    } else {
      sort_in(buffer, kinds);
      // A mask may hold minus infinity for good.
      if (buffer.is_floating_point() && buffer.numel() > 0 && at::isfinite(buffer).all().item<bool>())
        sound_.push_back({name, buffer});
    }
  }
  for (const auto& item : module_.named_parameters())
    large_.push_back({.name = item.key(), .buffer = item.value(), .parameter = true});
  const PhaseScope phase(MemoryPhase::kBufferCopies);
  for (Buffers& kind : kinds) {
    const bool selects = !kind[0].is_cpu();
    small_.emplace_back(std::move(kind), selects);
  }
  found_ = true;
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
  ++windows_;
  note_memory();
  for (FlatCopies& copies : small_) copies.save();
  if (!live_.empty()) at::_foreach_copy_(copies_, live_);
  for (Large& large : large_) large.version = large.buffer._version();
}

void ChangingBuffers::note_memory() {
  for (size_t i = 0; i < changing_.size(); ++i) {
    if (lie_together(changing_[i], live_[i])) continue;
    live_[i] = changing_[i].detach();
    if (copies_[i].sizes() != live_[i].sizes()) copies_[i] = torch::empty_like(live_[i]);
  }
  for (Large& large : large_) {
    if (!large.memory.defined() || !lie_together(large.buffer, large.memory))
      large.memory = large.buffer.detach();
  }
}

bool ChangingBuffers::moved() const {
  for (size_t i = 0; i < changing_.size(); ++i) {
    if (!lie_together(changing_[i], live_[i])) return true;
  }
  return std::ranges::any_of(large_, [](const Large& large) {
    return large.memory.defined() && !lie_together(large.buffer, large.memory);
  });
}

// First of all of them: several may have exchanged theirs.
void ChangingBuffers::put_back_memory() {
  if (!moved()) return;
  for (size_t i = 0; i < changing_.size(); ++i) {
    if (!lie_together(changing_[i], live_[i])) changing_[i].set_data(live_[i]);
  }
  for (Large& large : large_) {
    if (large.memory.defined() && !lie_together(large.buffer, large.memory))
      large.buffer.set_data(large.memory);
  }
}

bool ChangingBuffers::may_be_first_written() const {
  constexpr int64_t kWatched = 64;
  return windows_ <= kWatched &&
         std::ranges::any_of(large_, [](const Large& large) { return !large.parameter; });
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

// Those that lie elsewhere have left what they held where it was.
std::string ChangingBuffers::first_unwatched() const {
  for (const Large& large : large_) {
    if (large.buffer._version() != large.version && lie_together(large.buffer, large.memory))
      return large.name;
  }
  return "";
}

void ChangingBuffers::move_to_copied(size_t i) {
  const PhaseScope phase(MemoryPhase::kBufferCopies);
  torch::Tensor copy = torch::empty_like(large_[i].memory);  // before anything is changed: it may be refused
  copies_.push_back(std::move(copy));
  live_.push_back(large_[i].memory);
  changing_.push_back(large_[i].buffer);
  large_.erase(large_.begin() + static_cast<std::ptrdiff_t>(i));
}

void ChangingBuffers::start(const at::RecordFunction& operation) {
  if (large_.empty() || copying_) return;
  if (writes_silently(operation.name())) {  // to none of its parameters
    for (const c10::IValue& input : inputs_of(operation))
      for_tensors_of(input, [&](const torch::Tensor& tensor) { copy_before_change(tensor, false); });
  } else {
    written_.for_each(operation, [&](const torch::Tensor& tensor) { copy_before_change(tensor, true); });
  }
}

// An exception here would be swallowed by LibTorch.
void ChangingBuffers::copy_before_change(const torch::Tensor& written, bool parameters) {
  copying_ = true;
  try {
    const torch::NoGradGuard no_gradients;
    for (size_t i = 0; i < large_.size();) {  // views of one memory may be several of them
      if ((large_[i].parameter && !parameters) || !share_memory(large_[i].memory, written)) {
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

// By the largest number of each.
torch::Tensor ChangingBuffers::nought() const {
  if (sound_.empty()) return {};
  const torch::NoGradGuard no_gradients;
  std::vector<Buffers> kinds;
  for (const NamedTensor& each : sound_) sort_in(each.tensor.detach(), kinds);
  torch::Tensor sum;
  for (const Buffers& kind : kinds) {
    const torch::Tensor largest = at::stack(at::_foreach_max(kind)).to(torch::kFloat64).clamp_min(0);
    const torch::Tensor nought = (largest - largest).sum();
    sum = sum.defined() ? sum + nought : nought;
  }
  return sum;
}

std::string ChangingBuffers::first_not_finite() const {
  for (const NamedTensor& each : sound_) {
    if (!at::isfinite(each.tensor.max().clamp_min(0)).item<bool>()) return each.name;
  }
  return "";
}

void ChangingBuffers::rethrow_failure() {
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void ChangingBuffers::restore() {
  failure_ = nullptr;
  const torch::NoGradGuard no_gradients;
  put_back_memory();
  for (FlatCopies& copies : small_) copies.restore();
  if (!live_.empty()) at::_foreach_copy_(live_, copies_);
}

void ChangingBuffers::restore_unless(const torch::Tensor& keep) {
  if (keep.is_cpu() || moved()) {  // which the host alone can put back
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
