#include "model/small_form.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>

#include <algorithm>
#include <atomic>
#include <limits>

#include "model/two_values.h"

namespace autotrain {
namespace {

constexpr int64_t kBytesOfTask = 1 << 13;  // of bits: less is not worth another thread

// Whether it is all that lies in its memory.
bool fills_its_memory(const torch::Tensor& tensor) {
  return tensor.numel() > 0 && tensor.is_non_overlapping_and_dense() &&
         tensor.storage().nbytes() == tensor.nbytes();
}

// Calls `use` with a number of the type that has as many bytes; false where there is none.
template <class Use>
bool with_item_of(size_t bytes, Use use) {
  switch (bytes) {
    case 1: return use(uint8_t{});
    case 2: return use(uint16_t{});
    case 4: return use(uint32_t{});
    case 8: return use(uint64_t{});
    default: return false;
  }
}

// Calls `run` with parts of `count` items: where each begins, and how many there are.
template <class Run>
void for_parts(int64_t count, Run run) {
  at::parallel_for(0, (count + 7) / 8, kBytesOfTask,
                   [&](int64_t begin, int64_t end) { run(8 * begin, std::min(8 * end, count) - 8 * begin); });
}

template <class Item>
TwoValues<Item> first_two_of(const Item* items, int64_t count, bool truths) {
  if (truths) return {.low = 0, .high = 1};
  const Item first = items[0];
  const Item* const other =
      std::find_if(items, items + count, [&](const Item& item) { return item != first; });
  return {.low = first, .high = other == items + count ? first : *other};
}

// The least type that has all numbers below the bound.
torch::ScalarType type_below(int64_t bound) {
  if (bound <= int64_t{std::numeric_limits<uint8_t>::max()} + 1) return torch::kUInt8;
  if (bound <= int64_t{std::numeric_limits<int16_t>::max()} + 1) return torch::kInt16;
  return bound <= int64_t{std::numeric_limits<int32_t>::max()} + 1 ? torch::kInt32 : torch::kInt64;
}

}  // namespace

SmallForm::SmallForm(const torch::Tensor& of)
    : sizes_(of.sizes().vec()), strides_(of.strides().vec()), options_(of.options()) {}

std::optional<SmallForm> SmallForm::of_two_values(const torch::Tensor& tensor) {
  if (!tensor.is_cpu() || !fills_its_memory(tensor)) return std::nullopt;
  SmallForm form(tensor);
  form.bits_ = true;
  form.kept_ = at::empty({(tensor.numel() + 7) / 8}, torch::kUInt8);
  auto* const bits = form.kept_.mutable_data_ptr<uint8_t>();
  const bool packed = with_item_of(tensor.itemsize(), [&]<class Item>(Item) {
    const auto* const items = static_cast<const Item*>(tensor.const_data_ptr());
    const TwoValues<Item> values = first_two_of(items, tensor.numel(), tensor.scalar_type() == torch::kBool);
    form.low_ = values.low;
    form.high_ = values.high;
    std::atomic<bool> all = true;
    for_parts(tensor.numel(), [&](int64_t begin, int64_t count) {
      if (!pack_bits(items + begin, count, values, bits + begin / 8)) all = false;
    });
    return all.load();
  });
  return packed ? std::optional(std::move(form)) : std::nullopt;
}

std::optional<SmallForm> SmallForm::of_indices(const torch::Tensor& tensor, int64_t bound) {
  const torch::ScalarType type = type_below(bound);
  if (type == torch::kInt64 || !fills_its_memory(tensor)) return std::nullopt;
  SmallForm form(tensor);
  form.kept_ = at::empty_strided(form.sizes_, form.strides_, form.options_.dtype(type));
  form.kept_.copy_(tensor);
  return form;
}

torch::Tensor SmallForm::restored() const {
  torch::Tensor tensor = at::empty_strided(sizes_, strides_, options_);
  if (!bits_) return tensor.copy_(kept_);
  const auto* const bits = kept_.const_data_ptr<uint8_t>();
  with_item_of(tensor.itemsize(), [&]<class Item>(Item) {
    auto* const items = static_cast<Item*>(tensor.mutable_data_ptr());
    const TwoValues<Item> values{.low = static_cast<Item>(low_), .high = static_cast<Item>(high_)};
    for_parts(tensor.numel(), [&](int64_t begin, int64_t count) {
      unpack_bits(bits + begin / 8, count, values, items + begin);
    });
    return true;
  });
  return tensor;
}

}  // namespace autotrain
