#include "data/finite.h"

#include <bit>
#include <cmath>

#include "base/text.h"

namespace autotrain {
namespace {

constexpr uint32_t kInfinity = 0x7f800000, kMagnitude = 0x7fffffff;

// Blocks without a hit are passed several numbers at once.
template <class Hits>
int64_t first_of(const float* numbers, int64_t count, Hits hits) {
  constexpr int64_t kBlock = 256;
  for (int64_t start = 0; start < count; start += kBlock) {
    const int64_t end = std::min(count, start + kBlock);
    uint32_t any = 0;
    for (int64_t i = start; i < end; ++i) any |= hits(std::bit_cast<uint32_t>(numbers[i]) & kMagnitude);
    for (int64_t i = start; any != 0 && i < end; ++i) {
      if (hits(std::bit_cast<uint32_t>(numbers[i]) & kMagnitude) != 0) return i;
    }
  }
  return count;
}

std::optional<NotFinite> first_in(const torch::Tensor& numbers, const std::string& of) {
  if (!numbers.defined() || !numbers.is_floating_point() || numbers.numel() == 0) return {};
  const torch::Tensor flat = numbers.detach().reshape({-1});
  const torch::Tensor bad = at::isfinite(flat).logical_not();
  if (!bad.any().item<bool>()) return {};
  const int64_t at = bad.to(torch::kUInt8).argmax().item<int64_t>();
  return NotFinite{at / (numbers.numel() / numbers.size(0)), of, flat[at].item<double>()};
}

}  // namespace

int64_t first_not_finite(const float* numbers, int64_t count) {
  return first_of(numbers, count, [](uint32_t bits) { return uint32_t{bits >= kInfinity}; });
}

int64_t first_nan(const float* numbers, int64_t count) {
  return first_of(numbers, count, [](uint32_t bits) { return uint32_t{bits > kInfinity}; });
}

std::optional<NotFinite> first_value_that_is_not_finite(const Batch& batch, const DatasetInfo& info) {
  const auto name = [&](size_t i) { return i < info.inputs.size() ? info.inputs[i].name : "inputs"; };
  if (auto found = first_in(batch.inputs, name(0))) return found;
  for (size_t i = 0; i < batch.more_inputs.size(); ++i) {
    if (auto found = first_in(batch.more_inputs[i], name(i + 1))) return found;
  }
  return first_in(batch.targets, "targets");
}

}  // namespace autotrain
