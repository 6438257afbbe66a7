#include "device/caching_allocator.h"

#include <ATen/Parallel.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <map>

#include "autotrain/error.h"
#include "base/run_thread.h"
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

// Blocks below a mebibyte live apart, so that a small tensor that stays does not keep a large hole
// from being joined or given back.
constexpr int64_t kLargeFrom = kMiB;
constexpr int64_t kMediumAlignment = 64;
constexpr int64_t kLargeAlignment = 4 * kKiB;

// More free memory than this share of the peak is traded for page faults: reserved stays within
// 1.1 × the peak allocated.
constexpr double kReserveFactor = 1.08;

BlockPool::Units units(int64_t alignment) {
  return {.granule = AddressSpace::kGranule, .page = AddressSpace::kPage, .alignment = alignment};
}

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
    : medium_space_(options.small_address_bytes),
      large_space_(options.large_address_bytes),
      medium_(medium_space_.size(), units(kMediumAlignment), pages_of(medium_space_)),
      large_(large_space_.size(), units(kLargeAlignment), pages_of(large_space_)),
      limit_bytes_(kUnlimited) {}

CachingAllocator& CachingAllocator::process_wide() {
  static auto* const allocator = new CachingAllocator(options_for_this_process());
  return *allocator;
}

BlockPool::Pages CachingAllocator::pages_of(AddressSpace& space) {
  return {.commit = [&space](int64_t at, int64_t bytes) { return space.commit(at, bytes); },
          .decommit = [&space](int64_t at, int64_t bytes) { space.decommit(at, bytes); }};
}

c10::DataPtr CachingAllocator::allocate(size_t bytes) {
  const c10::Device cpu(c10::DeviceType::CPU);
  if (bytes == 0) return {nullptr, nullptr, &free_block, cpu};
  if (!serves_caller()) return allocate_for_program(bytes);
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
  const AddressSpace& space = which == Pool::kLarge ? large_space_ : medium_space_;
  auto* const header = new (space.base() + block->offset) Header{this, block, requested, which};
  count(requested);
  void* const data = header + 1;
  return {data, data, &free_block, cpu};
}

void CachingAllocator::install() {
  if (before_ != nullptr) return;
  before_ = c10::GetCPUAllocator();
  c10::SetCPUAllocator(this);
}

// What helps a run within one operation may be any thread.
bool CachingAllocator::serves_caller() const {
  if (before_ == nullptr) return true;
  return in_use_ && (works_for_run() || !run_lives() || at::in_parallel_region());
}

c10::DataPtr CachingAllocator::allocate_for_program(size_t bytes) {
  if (before_ != c10::GetDefaultCPUAllocator()) return before_->allocate(bytes);  // not counted
  void* const data = before_->raw_allocate(bytes);
  program_bytes_ += static_cast<int64_t>(::malloc_usable_size(data));
  return {data, data, &free_of_program, c10::Device(c10::DeviceType::CPU)};
}

void CachingAllocator::free_of_program(void* data) noexcept {
  if (data == nullptr) return;
  CachingAllocator& here = process_wide();
  here.program_bytes_ -= static_cast<int64_t>(::malloc_usable_size(data));
  here.before_->raw_deallocate(data);
}

// Of memory that was allocated raw, nobody knows by which of the two.
void CachingAllocator::free_any(void* data) noexcept {
  CachingAllocator& here = process_wide();
  if (data == nullptr || here.holds(data)) return free_block(data);
  if (here.before_ == c10::GetDefaultCPUAllocator()) return free_of_program(data);
  here.before_->raw_deallocate(data);
}

bool CachingAllocator::holds(const void* data) const {
  const auto within = [&](const AddressSpace& space) {
    return data >= space.base() && data < space.base() + space.size();
  };
  std::lock_guard lock(mutex_);
  return within(medium_space_) || within(large_space_);
}

// What was allocated before the installation is given back uncounted at most once.
int64_t CachingAllocator::program_bytes() const {
  return std::max<int64_t>(0, program_bytes_);
}

c10::DeleterFnPtr CachingAllocator::raw_deleter() const {
  return before_ != nullptr ? &free_any : &free_block;
}

void CachingAllocator::copy_data(void* destination, const void* source, size_t bytes) const {
  default_copy_data(destination, source, bytes);
}

void CachingAllocator::free_block(void* data) noexcept {
  if (data == nullptr) return;
  (static_cast<Header*>(data) - 1)->owner->release(data);
}

void CachingAllocator::release(void* data) noexcept {
  const Header header = *(static_cast<Header*>(data) - 1);
  std::lock_guard lock(mutex_);
  allocated_bytes_ -= header.requested_bytes;
  pool(header.pool).release(header.block);
  if (reserved_unlocked() > limit_bytes_) {  // the limit was lowered meanwhile
    trim_unlocked(reserved_unlocked() - limit_bytes_, header.pool, 0);
  }
}

bool CachingAllocator::injected_fault(int64_t bytes) {
  if (!fault_ || !fault_(bytes, PhaseScope::current())) return false;
  refused_by_system_ = true;
  return true;
}

BlockPool::Block* CachingAllocator::find_block(Pool which, int64_t bytes) {
  BlockPool& pool = this->pool(which);
  refused_by_system_ = false;
  if (BlockPool::Block* const block = pool.allocate(bytes)) return block;
  const int64_t spare = make_room(which, bytes);
  if (spare < 0) return nullptr;
  if (!pool.grow(bytes, spare)) {
    // The system refused. Whatever is free here may be just what it lacks.
    trim_unlocked(kUnlimited, which, bytes);
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
  const int64_t limit = limit_now();
  const int64_t ceiling = std::min(limit, std::max(wanted, 4 * AddressSpace::kGranule));
  const auto after_growth = [&] {
    const int64_t growth = pool(which).growth_needed(bytes);
    return growth < 0 ? kUnlimited : reserved_unlocked() + growth;
  };
  int64_t needed = after_growth();
  if (needed > ceiling) trim_unlocked(needed - ceiling, which, bytes), needed = after_growth();
  // The block that would have grown is free memory too, but it may be the last there is.
  if (needed > limit) trim_unlocked(needed - limit, which, 0), needed = after_growth();
  refused_by_system_ = needed > limit && needed <= limit_bytes_;
  return needed > limit ? -1 : std::max<int64_t>(0, ceiling - needed);
}

// Giving memory back raises the headroom by as much as it lowers what is reserved: the sum stays.
int64_t CachingAllocator::limit_now() const {
  if (!headroom_) return limit_bytes_;
  return std::min(limit_bytes_, reserved_unlocked() + headroom_());
}

int64_t CachingAllocator::trim_unlocked(int64_t bytes, Pool growing, int64_t spared_for) noexcept {
  const Pool other = growing == Pool::kLarge ? Pool::kMedium : Pool::kLarge;
  const int64_t given_back = pool(growing).trim(bytes, spared_for);
  return given_back < bytes ? given_back + pool(other).trim(bytes - given_back) : given_back;
}

int64_t CachingAllocator::reserved_unlocked() const {
  return medium_.committed_bytes() + large_.committed_bytes();
}

void CachingAllocator::count(int64_t bytes) {
  allocated_bytes_ += bytes;
  most_allocated_ever_ = std::max(most_allocated_ever_, allocated_bytes_);
  peak_allocated_bytes_ = std::max(peak_allocated_bytes_, allocated_bytes_);
  peak_reserved_bytes_ = std::max(peak_reserved_bytes_, reserved_unlocked());
}

void CachingAllocator::set_limit(int64_t bytes) {
  std::lock_guard lock(mutex_);
  limit_bytes_ = bytes;
  const int64_t excess = reserved_unlocked() - limit_bytes_;
  if (excess > 0) trim_unlocked(excess, Pool::kLarge, 0);
}

void CachingAllocator::set_headroom(std::function<int64_t()> headroom) {
  std::lock_guard lock(mutex_);
  headroom_ = std::move(headroom);
}

void CachingAllocator::set_fault(Fault fault) {
  std::lock_guard lock(mutex_);
  fault_ = std::move(fault);
}

int64_t CachingAllocator::limit_bytes() const {
  std::lock_guard lock(mutex_);
  return limit_bytes_;
}

int64_t CachingAllocator::allocated_bytes() const {
  std::lock_guard lock(mutex_);
  return allocated_bytes_;
}

int64_t CachingAllocator::reserved_bytes() const {
  std::lock_guard lock(mutex_);
  return reserved_unlocked();
}

int64_t CachingAllocator::peak_allocated_bytes() const {
  std::lock_guard lock(mutex_);
  return peak_allocated_bytes_;
}

int64_t CachingAllocator::idle_address_bytes() const {
  std::lock_guard lock(mutex_);
  return medium_space_.size() + large_space_.size() - reserved_unlocked();
}

void CachingAllocator::give_up_addresses(int64_t bytes) {
  std::lock_guard lock(mutex_);
  large_space_.drop_end(large_.drop_end(round_up(bytes, AddressSpace::kGranule)));
}

int64_t CachingAllocator::peak_reserved_bytes() const {
  std::lock_guard lock(mutex_);
  return peak_reserved_bytes_;
}

void CachingAllocator::reset_peaks() {
  std::lock_guard lock(mutex_);
  peak_allocated_bytes_ = allocated_bytes_;
  peak_reserved_bytes_ = reserved_unlocked();
}

void CachingAllocator::empty_cache() {
  std::lock_guard lock(mutex_);
  trim_unlocked(kUnlimited, Pool::kLarge, 0);
  most_allocated_ever_ = allocated_bytes_;
}

std::optional<Refusal> CachingAllocator::last_refusal() const {
  std::lock_guard lock(mutex_);
  return refusal_;
}

void CachingAllocator::clear_refusal() {
  std::lock_guard lock(mutex_);
  refusal_.reset();
}

std::array<int64_t, kMemoryPhases> CachingAllocator::allocated_by_phase() const {
  std::lock_guard lock(mutex_);
  std::array<int64_t, kMemoryPhases> bytes{};
  const auto add = [&](const BlockPool::Block& block) {
    bytes[static_cast<size_t>(block.phase)] += block.size;
  };
  medium_.visit_used(add);
  large_.visit_used(add);
  return bytes;
}

Refusal CachingAllocator::describe_refusal(int64_t bytes) const {
  constexpr size_t kRows = 8;
  Refusal refusal;
  refusal.requested_bytes = bytes;
  refusal.allocated_bytes = allocated_bytes_;
  refusal.reserved_bytes = reserved_unlocked();
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
  medium_.visit_used(add);
  large_.visit_used(add);
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
