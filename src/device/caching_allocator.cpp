#include "device/caching_allocator.h"

#include <c10/util/Exception.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <map>

#include "base/text.h"
#include "base/units.h"
#include "device/system_memory.h"

namespace autotrain {

// In front of every tensor's memory. Data and context of a DataPtr must be the same pointer (oneDNN
// allocates through raw_allocate, which asserts it), so the block is found from here.
struct alignas(64) CachingAllocator::Header {
  CachingAllocator* owner;
  BlockPool::Block* block;
  int64_t requested_bytes;
  Pool pool;
};

namespace {

constexpr int64_t kLargeFrom = kMiB;

// More free memory than this share of the peak is traded for page faults: reserved stays within
// 1.1 × the peak allocated.
constexpr double kReserveFactor = 1.08;

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

CachingAllocator::Options options_for_this_process() {
  for (const MemoryBound& bound : memory_bounds(ResourceLimits::of_this_process())) {
    if (bound.name != kAddressSpaceBound) continue;
    // Addresses are scarce. A few are kept for small blocks, which may also use the others.
    const int64_t usable = std::max<int64_t>(0, bound.available_bytes() - reserve_below(bound));
    const int64_t small = usable / 16 / AddressSpace::kGranule * AddressSpace::kGranule;
    return {small, (usable - small) / AddressSpace::kGranule * AddressSpace::kGranule};
  }
  const int64_t pages = ::sysconf(_SC_PHYS_PAGES);
  const int64_t physical = pages * ::sysconf(_SC_PAGESIZE);
  // Addresses are free; room for holes lets fragmented memory be committed elsewhere instead.
  const int64_t plenty = round_up(std::max(physical, kGiB) * 4, AddressSpace::kGranule);
  return {plenty, plenty};
}

}  // namespace

CachingAllocator::CachingAllocator(Options options)
    : pools_(options.small_address_bytes, options.large_address_bytes), limit_bytes_(kUnlimited) {}

CachingAllocator& CachingAllocator::process_wide() {
  static auto* const allocator = new CachingAllocator(options_for_this_process());
  static const int watches_forks = ::pthread_atfork(lock_for_fork, unlock_after_fork, unlock_after_fork);
  static_cast<void>(watches_forks);
  return *allocator;
}

// A process that is forked while another thread allocates would find the lock taken for ever.
void CachingAllocator::lock_for_fork() {
  process_wide().mutex_.lock();
}

void CachingAllocator::unlock_after_fork() {
  process_wide().mutex_.unlock();
}

c10::DataPtr CachingAllocator::allocate(size_t bytes) {
  const c10::Device cpu(c10::DeviceType::CPU);
  if (bytes == 0) return {nullptr, nullptr, &free_block, cpu};
  std::lock_guard lock(mutex_);
  const auto requested = static_cast<int64_t>(bytes);
  const bool absurd = bytes > static_cast<size_t>(kUnlimited) / 2;
  const int64_t with_header = requested + static_cast<int64_t>(sizeof(Header));
  Pool which = requested >= kLargeFrom ? Pool::kLarge : Pool::kMedium;
  const bool refused = absurd || injected_fault(requested);
  BlockPool::Block* block = refused ? nullptr : find_block(which, with_header);
  if (block == nullptr && !refused && which == Pool::kMedium) {
    block = find_block(which = Pool::kLarge, with_header);
  }
  if (block == nullptr) {
    refusal_ = describe_refusal(absurd ? kUnlimited / 2 : requested);
    C10_THROW_ERROR(OutOfMemoryError,
                    cat("out of memory: ", format_bytes(refusal_->requested_bytes), " refused in phase ",
                        refusal_->phase, " with ", format_bytes(refusal_->allocated_bytes), " allocated, ",
                        format_bytes(refusal_->reserved_bytes), " reserved, of ",
                        format_bytes(refusal_->limit_bytes), " for tensors"));
  }
  block->phase = PhaseScope::current();
  auto* const header = new (pools_.address(which, *block)) Header{this, block, requested, which};
  allocated_bytes_ += requested;
  most_allocated_ever_ = std::max(most_allocated_ever_, allocated_bytes_);
  peak_allocated_bytes_ = std::max(peak_allocated_bytes_, allocated_bytes_);
  peak_reserved_bytes_ = std::max(peak_reserved_bytes_, pools_.committed_bytes());
  void* const data = header + 1;
  return {data, data, &free_block, cpu};
}

c10::DeleterFnPtr CachingAllocator::raw_deleter() const {
  return &free_block;
}

void CachingAllocator::copy_data(void* destination, const void* source, size_t bytes) const {
  default_copy_data(destination, source, bytes);
}

bool CachingAllocator::holds(const void* data) const {
  std::lock_guard lock(mutex_);
  return pools_.holds(data);
}

void CachingAllocator::free_block(void* data) noexcept {
  if (data == nullptr) return;
  (static_cast<Header*>(data) - 1)->owner->release(data);
}

void CachingAllocator::release(void* data) noexcept {
  const Header header = *(static_cast<Header*>(data) - 1);
  std::lock_guard lock(mutex_);
  allocated_bytes_ -= header.requested_bytes;
  pools_[header.pool].release(header.block);
  const int64_t excess = pools_.committed_bytes() - limit_bytes_;
  if (excess > 0) pools_.trim(excess, header.pool, 0);  // the limit was lowered meanwhile
}

bool CachingAllocator::injected_fault(int64_t bytes) {
  if (!fault_ || !fault_(bytes, PhaseScope::current())) return false;
  refused_by_system_ = true;
  return true;
}

BlockPool::Block* CachingAllocator::find_block(Pool which, int64_t bytes) {
  BlockPool& pool = pools_[which];
  refused_by_system_ = false;
  if (BlockPool::Block* const block = pool.allocate(bytes)) return block;
  const int64_t spare = make_room(which, bytes);
  if (spare < 0) return nullptr;
  if (!pool.grow(bytes, spare)) {
    // The system refused. Whatever is free here may be just what it lacks.
    pools_.trim(kUnlimited, which, bytes);
    refused_by_system_ = !pool.grow(bytes, 0);
    if (refused_by_system_) return nullptr;
  }
  return pool.allocate(bytes);
}

// Gives free memory back so that growing by one block of `bytes` stays within the limit and, as far as
// possible, within a small factor of what was ever needed at once. Returns what could be committed
// beyond that, or -1 when the limit forbids the block.
int64_t CachingAllocator::make_room(Pool which, int64_t bytes) {
  const int64_t most = std::max(most_allocated_ever_, allocated_bytes_ + bytes);
  const auto wanted = static_cast<int64_t>(static_cast<double>(most) * kReserveFactor);
  // Giving memory back raises the headroom by as much as it lowers what is reserved: the sum stays.
  const int64_t limit =
      headroom_ ? std::min(limit_bytes_, pools_.committed_bytes() + headroom_()) : limit_bytes_;
  const int64_t ceiling = std::min(limit, std::max(wanted, 4 * AddressSpace::kGranule));
  const auto after_growth = [&] {
    const int64_t growth = pools_[which].growth_needed(bytes);
    return growth < 0 ? kUnlimited : pools_.committed_bytes() + growth;
  };
  int64_t needed = after_growth();
  if (needed > ceiling) pools_.trim(needed - ceiling, which, bytes), needed = after_growth();
  // The block that would have grown is free memory too, but it may be the last there is.
  if (needed > limit) pools_.trim(needed - limit, which, 0), needed = after_growth();
  refused_by_system_ = needed > limit && needed <= limit_bytes_;
  return needed > limit ? -1 : std::max<int64_t>(0, ceiling - needed);
}

void CachingAllocator::set_limit(int64_t bytes) {
  std::lock_guard lock(mutex_);
  limit_bytes_ = bytes;
  const int64_t excess = pools_.committed_bytes() - limit_bytes_;
  if (excess > 0) pools_.trim(excess, Pool::kLarge, 0);
}

void CachingAllocator::set_headroom(std::function<int64_t()> headroom) {
  std::lock_guard lock(mutex_);
  headroom_ = std::move(headroom);
}

void CachingAllocator::set_fault(Fault fault) {
  std::lock_guard lock(mutex_);
  fault_ = std::move(fault);
}

CachingAllocator::Counts CachingAllocator::counts() const {
  std::lock_guard lock(mutex_);
  const int64_t reserved = pools_.committed_bytes();
  return {.allocated_bytes = allocated_bytes_,
          .reserved_bytes = reserved,
          .peak_allocated_bytes = peak_allocated_bytes_,
          .peak_reserved_bytes = peak_reserved_bytes_,
          .limit_bytes = limit_bytes_,
          .idle_address_bytes = pools_.address_bytes() - reserved};
}

void CachingAllocator::start_counting() {
  std::lock_guard lock(mutex_);
  peak_allocated_bytes_ = allocated_bytes_;
  peak_reserved_bytes_ = pools_.committed_bytes();
  refusal_.reset();
}

void CachingAllocator::give_up_addresses(int64_t bytes) {
  std::lock_guard lock(mutex_);
  pools_.drop_end(bytes);
}

void CachingAllocator::empty_cache() {
  std::lock_guard lock(mutex_);
  pools_.trim(kUnlimited, Pool::kLarge, 0);
  most_allocated_ever_ = allocated_bytes_;
}

std::optional<Refusal> CachingAllocator::last_refusal() const {
  std::lock_guard lock(mutex_);
  return refusal_;
}

Refusal CachingAllocator::describe_refusal(int64_t bytes) const {
  constexpr size_t kRows = 8;
  Refusal refusal;
  refusal.requested_bytes = bytes;
  refusal.allocated_bytes = allocated_bytes_;
  refusal.reserved_bytes = pools_.committed_bytes();
  refusal.limit_bytes = limit_bytes_ == kUnlimited ? -1 : limit_bytes_;
  refusal.by_system = refused_by_system_;
  refusal.phase = to_string(PhaseScope::current());

  std::map<std::pair<int64_t, MemoryPhase>, int64_t> counts;  // (size, phase) → blocks
  std::map<MemoryPhase, LiveBlock> phases;
  const auto add = [&](const BlockPool::Block& block) {
    ++counts[{block.size, block.phase}];
    LiveBlock& row = phases.try_emplace(block.phase, LiveBlock{0, 0, ""}).first->second;
    row.bytes += block.size;
    ++row.count;
  };
  pools_.visit_used(add);
  for (auto it = counts.rbegin(); it != counts.rend() && refusal.largest.size() < kRows; ++it) {
    refusal.largest.push_back({it->first.first, it->second, to_string(it->first.second)});
  }
  for (auto& [phase, row] : phases) {
    row.phase = to_string(phase);
    refusal.by_phase.push_back(row);
  }
  std::sort(refusal.by_phase.begin(), refusal.by_phase.end(),
            [](const LiveBlock& a, const LiveBlock& b) { return a.bytes > b.bytes; });
  return refusal;
}

}  // namespace autotrain
