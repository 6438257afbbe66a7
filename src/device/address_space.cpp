#include "device/address_space.h"

#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#ifndef MADV_POPULATE_WRITE  // Linux 5.14; older C libraries do not name it
#define MADV_POPULATE_WRITE 23
#endif

namespace autotrain {
namespace {

std::byte* align_up(void* address, int64_t alignment) {
  const auto value = reinterpret_cast<uintptr_t>(address);
  const auto step = static_cast<uintptr_t>(alignment);
  return reinterpret_cast<std::byte*>((value + step - 1) / step * step);
}

// Touching is the fallback for kernels that cannot populate: a fresh page holds zeros already.
bool touch_pages(std::byte* start, int64_t bytes) {
  const int64_t page = ::sysconf(_SC_PAGESIZE);
  for (int64_t at = 0; at < bytes; at += page) {
    *reinterpret_cast<volatile char*>(start + at) = 0;
  }
  return true;
}

bool populate(std::byte* start, int64_t bytes) {
  constexpr int kMostTries = 100;  // what the system lacks it may lack for long
  for (int tries = 0; tries < kMostTries;) {
    if (::madvise(start, static_cast<size_t>(bytes), MADV_POPULATE_WRITE) == 0) return true;
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return errno == EINVAL || errno == ENOSYS ? touch_pages(start, bytes) : false;
    ++tries;
    ::sched_yield();
  }
  return false;
}

}  // namespace

AddressSpace::AddressSpace(int64_t bytes) {
  for (; bytes >= kGranule; bytes = bytes / 2 / kGranule * kGranule) {
    const int64_t with_slack = bytes + kGranule;
    void* const mapping = ::mmap(nullptr, static_cast<size_t>(with_slack), PROT_NONE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED) continue;
    mapping_ = mapping;
    mapping_bytes_ = with_slack;
    base_ = align_up(mapping, kGranule);
    size_ = bytes;
    ::madvise(base_, static_cast<size_t>(size_), MADV_HUGEPAGE);  // advice: failing is fine
    return;
  }
}

AddressSpace::~AddressSpace() {
  if (mapping_ != nullptr) ::munmap(mapping_, static_cast<size_t>(mapping_bytes_));
}

bool AddressSpace::commit(int64_t offset, int64_t bytes) {
  std::byte* const start = base_ + offset;
  if (::mprotect(start, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE) != 0) return false;
  if (populate(start, bytes)) return true;
  decommit(offset, bytes);
  return false;
}

void AddressSpace::drop_end(int64_t bytes) {
  std::byte* const start = base_ + size_ - bytes;
  std::byte* const end = static_cast<std::byte*>(mapping_) + mapping_bytes_;
  ::munmap(start, static_cast<size_t>(end - start));
  mapping_bytes_ = start - static_cast<std::byte*>(mapping_);
  size_ -= bytes;
}

void AddressSpace::decommit(int64_t offset, int64_t bytes) {
  std::byte* const start = base_ + offset;
  ::madvise(start, static_cast<size_t>(bytes), MADV_DONTNEED);
  ::mprotect(start, static_cast<size_t>(bytes), PROT_NONE);
}

}  // namespace autotrain
