#include "device/cuda_meter.h"

#include <algorithm>
#include <exception>

#include "autotrain/log.h"

namespace autotrain {
namespace {

void say_once_that_neighbours_count() {
  [[maybe_unused]] static const bool said = [] {
    log::info("device",
              "the driver does not say what this process holds on the GPU, as in a container that hides "
              "processes: memory that neighbours take during the run counts as the run's");
    return true;
  }();
}

}  // namespace

CudaMeter::CudaMeter(std::unique_ptr<GpuMemory> gpu)
    : gpu_(std::move(gpu)), total_bytes_(gpu_->total_bytes()) {
  gpu_->empty_cache();
  gpu_->reset_peaks();
  gpu_->forget_refusal();
  const GpuAllocator before = gpu_->allocator();
  allocated_before_ = before.allocated_bytes;
  reserved_before_ = before.reserved_bytes;
  retries_before_ = before.retries;
  if (const std::optional<Own> own = own_now()) {
    own_at_start_ = own->bytes;
    outside_before_ = own->outside_bytes;
  } else {
    outside_before_ = everybodys_outside_now();
    say_once_that_neighbours_count();
  }
}

CudaMeter::~CudaMeter() {
  try {
    remove_limit();
  } catch (const std::exception&) {
    // A broken CUDA context cannot be repaired here, and the process is about to end.
  }
}

int64_t CudaMeter::everybodys_outside_now() const {
  return total_bytes_ - gpu_->free_bytes() - gpu_->allocator().reserved_bytes;
}

// Nothing: the driver does not say. Other threads may allocate while it is asked: what they add or give back
// meanwhile is not taken for memory outside the allocator. A process that holds less than our own allocator
// has is another one with the same number.
std::optional<CudaMeter::Own> CudaMeter::own_now() const {
  const int64_t reserved = gpu_->allocator().reserved_bytes;
  const std::optional<int64_t> own = gpu_->own_bytes();
  const int64_t reserved_then = gpu_->allocator().reserved_bytes;
  if (!own || *own < std::min(reserved, reserved_then)) return std::nullopt;
  return Own{*own, *own - std::max(reserved, reserved_then)};
}

int64_t CudaMeter::allocated_bytes() const {
  return gpu_->allocator().allocated_bytes - allocated_before_;
}

int64_t CudaMeter::reserved_bytes() const {
  return gpu_->allocator().reserved_bytes - reserved_before_;
}

int64_t CudaMeter::sample_outside_bytes() {
  std::optional<int64_t> outside;
  if (!own_at_start_) {
    outside = everybodys_outside_now();
  } else if (const std::optional<Own> own = own_now()) {
    outside = own->outside_bytes;
  }
  std::lock_guard lock(mutex_);
  // One answer that fails says nothing about this process: the last one stands.
  if (outside) outside_bytes_ = std::max<int64_t>(0, *outside - outside_before_);
  peak_outside_bytes_ = std::max(peak_outside_bytes_, outside_bytes_);
  if (limit_bytes_ >= 0) apply_limit();
  return outside_bytes_;
}

MemoryPeak CudaMeter::peak() const {
  const GpuAllocator now = gpu_->allocator();
  std::lock_guard lock(mutex_);
  return {.allocated_bytes = now.peak_allocated_bytes - allocated_before_,
          .reserved_bytes = now.peak_reserved_bytes - reserved_before_,
          .outside_bytes = peak_outside_bytes_,
          .retries = now.retries - retries_before_};
}

void CudaMeter::reset_peak() {
  std::lock_guard lock(mutex_);
  gpu_->reset_peaks();
  gpu_->forget_refusal();
  retries_before_ = gpu_->allocator().retries;
  peak_outside_bytes_ = outside_bytes_;
}

void CudaMeter::set_limit(int64_t bytes) {
  std::lock_guard lock(mutex_);
  limit_bytes_ = bytes;
  apply_limit();
}

void CudaMeter::apply_limit() {
  const int64_t granted = reserved_before_ + std::max<int64_t>(0, limit_bytes_ - outside_bytes_);
  const int64_t reserved = gpu_->allocator().reserved_bytes;
  const int64_t could_be_had = reserved + std::max<int64_t>(0, gpu_->free_bytes() - kReserveBytes);
  gpu_->limit_reserved(std::min(granted, could_be_had));
}

void CudaMeter::remove_limit() {
  std::lock_guard lock(mutex_);
  limit_bytes_ = -1;
  gpu_->limit_reserved(total_bytes_);
}

void CudaMeter::empty_cache() {
  gpu_->empty_cache();
}

int64_t CudaMeter::others_bytes() const {
  if (!own_at_start_) return outside_before_;
  const std::optional<Own> own = own_now();
  return own ? std::max<int64_t>(0, total_bytes_ - gpu_->free_bytes() - own->bytes) : 0;
}

int64_t CudaMeter::obtainable_bytes() const {
  const int64_t free = std::max<int64_t>(0, gpu_->free_bytes() - kReserveBytes);
  const int64_t reserved = reserved_bytes();
  std::lock_guard lock(mutex_);
  return reserved + outside_bytes_ + free;
}

// Refused although the limit would have allowed it: memory of the device was short, so what others held then
// is told.
std::optional<Refusal> CudaMeter::last_refusal() const {
  std::optional<GpuRefusal> last = gpu_->last_refusal();
  if (!last) return std::nullopt;
  std::lock_guard lock(mutex_);
  Refusal refusal = std::move(last->what);
  const int64_t used = refusal.reserved_bytes + (own_at_start_ ? outside_before_ + outside_bytes_ : 0);
  refusal.allocated_bytes -= allocated_before_;
  refusal.reserved_bytes -= reserved_before_;
  refusal.outside_bytes = outside_bytes_;
  refusal.limit_bytes = limit_bytes_;
  refusal.by_system = limit_bytes_ < 0 || refusal.total_bytes() <= limit_bytes_;
  if (refusal.by_system) refusal.others_bytes = std::max<int64_t>(0, total_bytes_ - last->free_bytes - used);
  return refusal;
}

}  // namespace autotrain
