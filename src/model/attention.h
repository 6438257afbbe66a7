#pragma once

#include <torch/types.h>

namespace autotrain {

/// How a layer's queries, keys and values are cut into heads. With fewer key-value heads than heads, each of
/// them serves equally many neighbouring queries (grouped queries: Ainslie et al. 2023, arXiv:2305.13245).
struct HeadShape {
  int64_t heads = 0;
  int64_t kv_heads = 0;  ///< divides `heads`
  int64_t head_size = 0;

  /// Numbers that one token has of queries, keys and values together.
  int64_t joined_width() const { return (heads + 2 * kv_heads) * head_size; }
};

/// Queries [n, heads, length, head_size]; keys and values [n, kv_heads, length, head_size].
struct Heads {
  torch::Tensor queries, keys, values;
};

/// Cuts [n, length, joined_width] into heads: views, nothing is copied.
Heads split_heads(const torch::Tensor& joined, const HeadShape& shape);

/// Cosines and sines by which positions turn queries and keys: float32, [length, head_size ÷ 2], or
/// [n, 1, 1, head_size ÷ 2] where each sequence is at a place of its own.
struct Rotation {
  torch::Tensor cosines, sines;
};

/// The angles of positions, position ÷ 10000^(2i ÷ head_size) for the i-th pair (Su et al. 2021,
/// arXiv:2104.09864). @param positions of any shape, int64. @return its shape, with head_size ÷ 2 behind it.
Rotation rotation_at(const torch::Tensor& positions, int64_t head_size);

/// Turns each pair of numbers (i, i + head_size ÷ 2) of a head by its angle. @param x [n, heads, length,
/// head_size] of any type, which the result has, too; computed in float32.
torch::Tensor rotated(const torch::Tensor& x, const Rotation& rotation);

/// Each position sees itself and those before it. @return [n, heads, length, head_size]
torch::Tensor causal_attention(const Heads& heads, double dropout);

/// One query of each sequence sees the keys of a cache. Every key-value head is read once for all queries
/// that it serves. @param queries [n, heads, 1, head_size]. @param keys, values [n, kv_heads, tokens,
/// head_size].
/// @param mask [n, 1, 1, tokens] of what may be seen; undefined: all. @return [n, heads, 1, head_size]
torch::Tensor attention_to_cache(const torch::Tensor& queries, const torch::Tensor& keys,
                                 const torch::Tensor& values, const torch::Tensor& mask);

}  // namespace autotrain
