#pragma once

#include <torch/types.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "model/decoder.h"
#include "model/sampling.h"

namespace autotrain {

/// A beginning that is to be gone on with.
struct GenerationRequest {
  std::vector<int64_t> prompt;       ///< not empty
  int64_t tokens = 0;                ///< that are generated, at least 1
  uint64_t key = 0;                  ///< of its draws, which depend on it and the place of a token alone
  std::optional<int64_t> stop = {};  ///< the token that ends it before
};

/// When sequences that are done make room for others.
enum class Admission {
  kContinuous,  ///< at once: the next request takes the place of one that is done
  kStatic,      ///< when all are done: a batch takes as long as its longest sequence
};

/// What generating took.
struct GenerationCount {
  int64_t prefills = 0;    ///< passes over beginnings
  int64_t steps = 0;       ///< passes over one token of each sequence
  int64_t slot_steps = 0;  ///< sequences in these passes, done ones included
  int64_t tokens = 0;      ///< that were generated
};

/// Generates what requests ask for in the slots of one cache, as many sequences at once as it has.
class Generation {
 public:
  /// @param decoder, cache must outlive this object. @param device of the tokens.
  Generation(Decoder& decoder, KeyValueCache& cache, const SamplingRule& rule, Admission admission,
             torch::Device device);

  /// The tokens of each request, in their order. Requests start in this order.
  /// Precondition: prompt and tokens of a request fit the cache's context together.
  /// @param on_pass called after each pass with the number of tokens so far.
  std::vector<std::vector<int64_t>> run(
      const std::vector<GenerationRequest>& requests,
      const std::function<void(int64_t done)>& on_pass = [](int64_t) {});

  const GenerationCount& count() const { return count_; }

 private:
  // A sequence under way. What it is fed next is its last token.
  struct Slot {
    size_t request = 0;
    int64_t length = 0;  // tokens in the cache
  };

  void admit();
  void prefill(size_t first_slot);
  void step();
  void retire();
  void take(const torch::Tensor& logits, size_t first_slot);
  bool is_done(const Slot& slot) const;

  Decoder& decoder_;
  KeyValueCache& cache_;
  const SamplingRule rule_;
  const Admission admission_;
  const torch::Device device_;
  const std::vector<GenerationRequest>* requests_ = nullptr;
  std::vector<std::vector<int64_t>> made_;
  std::deque<size_t> waiting_;  // requests
  std::vector<Slot> slots_;     // the cache's first ones
  GenerationCount count_;
};

}  // namespace autotrain
