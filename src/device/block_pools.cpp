#include "device/block_pools.h"

#include "base/units.h"

namespace autotrain {
namespace {

BlockPool::Units units(int64_t alignment) {
  return {.granule = AddressSpace::kGranule, .page = AddressSpace::kPage, .alignment = alignment};
}

BlockPool::Pages pages_of(AddressSpace& space) {
  return {.commit = [&space](int64_t at, int64_t bytes) { return space.commit(at, bytes); },
          .decommit = [&space](int64_t at, int64_t bytes) { space.decommit(at, bytes); }};
}

}  // namespace

BlockPools::BlockPools(int64_t medium_bytes, int64_t large_bytes)
    : medium_space_(medium_bytes),
      large_space_(large_bytes),
      medium_(medium_space_.size(), units(64), pages_of(medium_space_)),
      large_(large_space_.size(), units(4 * kKiB), pages_of(large_space_)) {}

std::byte* BlockPools::address(Kind kind, const BlockPool::Block& block) const {
  return (kind == Kind::kLarge ? large_space_ : medium_space_).base() + block.offset;
}

bool BlockPools::holds(const void* data) const {
  const auto within = [data](const AddressSpace& space) {
    return data >= space.base() && data < space.base() + space.size();
  };
  return within(medium_space_) || within(large_space_);
}

void BlockPools::trim(int64_t bytes, Kind growing, int64_t spared_for) noexcept {
  const Kind other = growing == Kind::kLarge ? Kind::kMedium : Kind::kLarge;
  const int64_t given_back = (*this)[growing].trim(bytes, spared_for);
  if (given_back < bytes) (*this)[other].trim(bytes - given_back);
}

void BlockPools::drop_end(int64_t bytes) {
  large_space_.drop_end(large_.drop_end(round_up(bytes, AddressSpace::kGranule)));
}

void BlockPools::visit_used(const std::function<void(const BlockPool::Block&)>& visit) const {
  medium_.visit_used(visit);
  large_.visit_used(visit);
}

}  // namespace autotrain
