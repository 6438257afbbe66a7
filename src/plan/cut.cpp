#include "plan/cut.h"

#include <algorithm>

#include "base/units.h"

namespace autotrain {

int64_t remainder_of(int64_t share, int64_t micro_batch) {
  const int64_t rest = share % micro_batch;
  return rest == 0 ? std::min(share, micro_batch) : rest;
}

int64_t smallest_remainder(int64_t samples, int64_t lanes, int64_t micro_batch) {
  const int64_t longest = ceil_div(samples, lanes), shortest = samples / lanes;
  const int64_t rest = remainder_of(longest, micro_batch);
  return shortest == 0 ? rest : std::min(rest, remainder_of(shortest, micro_batch));
}

int64_t executed_micro_batch(const CutRequest& request) {
  const int64_t capacity = std::min(request.capacity, request.share);
  const int64_t pieces = ceil_div(request.share, capacity);
  const int64_t wanted = request.cut == Cut::kEven ? ceil_div(request.share, pieces) : capacity;
  std::vector<int64_t> shares = request.others;
  shares.push_back(request.share);
  if (request.uneven && request.share > 1) shares.push_back(request.share - 1);
  for (int64_t size = wanted; size >= request.minimum; --size) {
    const auto leaves_enough = [&](int64_t share) { return remainder_of(share, size) >= request.minimum; };
    if (std::ranges::all_of(shares, leaves_enough)) return size;
  }
  return wanted;  // a share of 1 modulo every size: the remainder of one sample cannot be avoided
}

}  // namespace autotrain
