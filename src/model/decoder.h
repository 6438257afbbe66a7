#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

namespace autotrain {

/// The size of a cache of keys and values.
struct CacheShape {
  int64_t layers = 0;
  int64_t sequences = 0;
  int64_t kv_heads = 0;
  int64_t context = 0;  ///< tokens of a sequence, at most
  int64_t head_size = 0;

  /// Bytes that one token of one sequence takes: 2 · layers · kv_heads · head_size · bytes of a number.
  int64_t bytes_per_token(int64_t number_bytes) const {
    return 2 * layers * kv_heads * head_size * number_bytes;
  }
};

/// Keys and values of all tokens that sequences have so far, so that the next token need not compute them
/// again. All of it is allocated at once and stays where it is. How many tokens of a sequence count is for
/// whoever decodes to remember.
class KeyValueCache {
 public:
  KeyValueCache(const CacheShape& shape, const torch::TensorOptions& options);

  const CacheShape& shape() const { return shape_; }
  int64_t bytes() const;

  /// Of one layer: [sequences, kv_heads, context, head_size].
  const torch::Tensor& keys(int64_t layer) const { return keys_[static_cast<size_t>(layer)]; }
  const torch::Tensor& values(int64_t layer) const { return values_[static_cast<size_t>(layer)]; }

  /// Gives a sequence the first `tokens` tokens of another one.
  void copy(int64_t from, int64_t to, int64_t tokens);

 private:
  CacheShape shape_;
  std::vector<torch::Tensor> keys_, values_;
};

/// Where a further token of each of a cache's first sequences goes: the same in all layers.
class CachePlace {
 public:
  /// @param positions of the tokens, one for each sequence.
  CachePlace(const std::vector<int64_t>& positions, torch::Device device);

  const torch::Tensor& positions() const { return positions_; }  ///< [n] int64

  /// What each sequence may see of what `add` returns, [n, 1, 1, tokens]; undefined: all, for they are
  /// equally long.
  const torch::Tensor& mask() const { return mask_; }

  /// Puts the tokens' keys or values, [n, kv_heads, 1, head_size], into a layer's part of the cache.
  /// @return those of the sequences up to the longest one's end: [n, kv_heads, tokens, head_size], a view.
  torch::Tensor add(const torch::Tensor& cache, const torch::Tensor& rows) const;

 private:
  torch::Tensor positions_, mask_, sequences_;
  int64_t longest_;  // tokens with the new one
};

/// What is to be known of a model before it decodes.
struct DecoderFacts {
  CacheShape cache = {};  ///< of one sequence as long as those that it was built for
  int64_t vocabulary = 0;
  bool any_length = false;    ///< sequences may be longer than that
  int64_t weight_bytes = 0;   ///< that a step reads, whatever the batch
  int64_t step_products = 0;  ///< multiplications with a weight for one token: half its operations
  int64_t attention_heads = 0;
  int64_t experts = 0;  ///< of a layer; 0: none
  int64_t experts_per_token = 0;
  int64_t expert_bytes = 0;  ///< of one expert in all layers; `weight_bytes` has all of them
};

/// A model that reads tokens one after the other and remembers what it computed of those before. Calls are
/// made without gradients, in evaluation mode.
class Decoder {
 public:
  virtual ~Decoder() = default;

  virtual DecoderFacts facts() const = 0;

  /// Reads the beginnings of sequences first, first + 1, … of the cache, and forgets what these had.
  /// @param tokens [m, length] int64; what lies behind a sequence's own length counts for nothing.
  /// @param lengths of the m sequences, from 1 to `length`, which is at most the cache's context.
  /// @return logits of what follows each beginning: [m, vocabulary].
  virtual torch::Tensor prefill(const torch::Tensor& tokens, const std::vector<int64_t>& lengths,
                                KeyValueCache& cache, int64_t first) = 0;

  /// Reads one further token of each of the cache's first n sequences.
  /// @param tokens [n] int64. @param positions of these tokens, each below the cache's context; what the
  /// cache has from there on counts for nothing. @return logits of what follows: [n, vocabulary].
  virtual torch::Tensor step(const torch::Tensor& tokens, const std::vector<int64_t>& positions,
                             KeyValueCache& cache) = 0;
};

}  // namespace autotrain
