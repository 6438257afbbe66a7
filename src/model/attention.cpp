#include "model/attention.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <optional>
#include <vector>

namespace autotrain {
namespace {

constexpr double kRotationBase = 10000;

// Of 16-bit keys and values as float32, so that they stay in a processor's cache until they are multiplied.
constexpr int64_t kMostConverted = int64_t{16} << 20;

// Copies of each key-value head for all queries that it serves.
torch::Tensor for_all_heads(const torch::Tensor& x, int64_t heads) {
  const int64_t n = x.size(0), kv_heads = x.size(1), length = x.size(2), size = x.size(3);
  if (kv_heads == heads) return x;
  return x.unsqueeze(2)
      .expand({n, kv_heads, heads / kv_heads, length, size})
      .reshape({n, heads, length, size});
}

// A CPU's kernel packs 16-bit keys and values into blocks before it multiplies, for which one query does not
// pay. As float32, some sequences after the other, they are read once, and sums are exact to float32.
torch::Tensor attention_in_float32(const torch::Tensor& queries, const torch::Tensor& keys,
                                   const torch::Tensor& values, const std::optional<torch::Tensor>& mask) {
  const c10::impl::ExcludeDispatchKeyGuard without_autocast(c10::autocast_dispatch_keyset);
  const int64_t n = queries.size(0), converted = 2 * keys[0].numel() * int64_t{sizeof(float)},
                at_once = std::clamp<int64_t>(kMostConverted / converted, 1, n);
  std::vector<torch::Tensor> parts;
  for (int64_t first = 0; first < n; first += at_once) {
    const auto part_of = [&](const torch::Tensor& all) {
      return all.narrow(0, first, std::min(at_once, n - first));
    };
    const auto as_float32 = [&](const torch::Tensor& all) { return part_of(all).to(torch::kFloat32); };
    parts.push_back(at::scaled_dot_product_attention(as_float32(queries), as_float32(keys),
                                                     as_float32(values),
                                                     mask ? std::optional(part_of(*mask)) : std::nullopt));
  }
  return at::cat(parts).to(queries.scalar_type());
}

}  // namespace

Heads split_heads(const torch::Tensor& joined, const HeadShape& shape) {
  const int64_t n = joined.size(0), length = joined.size(1);
  if (shape.heads == shape.kv_heads) {
    const auto parts = joined.view({n, length, 3, shape.heads, shape.head_size}).permute({2, 0, 3, 1, 4});
    return {parts[0], parts[1], parts[2]};
  }
  const auto heads =
      joined.view({n, length, shape.heads + 2 * shape.kv_heads, shape.head_size}).transpose(1, 2);
  return {heads.narrow(1, 0, shape.heads), heads.narrow(1, shape.heads, shape.kv_heads),
          heads.narrow(1, shape.heads + shape.kv_heads, shape.kv_heads)};
}

Rotation rotation_at(const torch::Tensor& positions, int64_t head_size) {
  const auto real = positions.options().dtype(torch::kFloat32);
  const torch::Tensor exponents = at::arange(0, head_size, 2, real) / static_cast<double>(-head_size);
  const torch::Tensor angles =
      positions.to(torch::kFloat32).unsqueeze(-1) * at::pow(kRotationBase, exponents);
  return {angles.cos(), angles.sin()};
}

torch::Tensor rotated(const torch::Tensor& x, const Rotation& rotation) {
  const auto halves = x.to(torch::kFloat32).chunk(2, -1);
  const torch::Tensor &a = halves[0], &b = halves[1], &cosines = rotation.cosines, &sines = rotation.sines;
  return at::cat({a * cosines - b * sines, b * cosines + a * sines}, -1).to(x.scalar_type());
}

torch::Tensor causal_attention(const Heads& heads, double dropout) {
  const int64_t count = heads.queries.size(1);
  return at::scaled_dot_product_attention(heads.queries, for_all_heads(heads.keys, count),
                                          for_all_heads(heads.values, count), {}, dropout,
                                          /*is_causal=*/true);
}

// The queries of a group are rows of one product: to the kernel they are positions that see the same keys.
torch::Tensor attention_to_cache(const torch::Tensor& queries, const torch::Tensor& keys,
                                 const torch::Tensor& values, const torch::Tensor& mask) {
  const int64_t n = queries.size(0), heads = queries.size(1), kv_heads = keys.size(1), size = queries.size(3);
  const torch::Tensor grouped = queries.reshape({n, kv_heads, heads / kv_heads, size});
  const auto seen = mask.defined() ? std::optional(mask) : std::nullopt;
  if (queries.is_cpu() && queries.element_size() == 2)
    return attention_in_float32(grouped, keys, values, seen).reshape({n, heads, 1, size});
  return at::scaled_dot_product_attention(grouped, keys, values, seen).reshape({n, heads, 1, size});
}

}  // namespace autotrain
