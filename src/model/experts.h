#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "model/linear.h"
#include "model/packed_product.h"

namespace autotrain {

/// A mixture of experts in the place of one feed-forward layer.
struct ExpertOptions {
  int64_t experts = 0;          ///< 0: none
  int64_t per_token = 2;        ///< k, at most `experts`
  bool experts_choose = false;  ///< each expert takes its tokens, in the place of each token its experts
  double capacity = 0;          ///< tokens that an expert takes of a sequence ÷ its even share; 0: all
  double balance = 0;           ///< part of the loss that makes gates even
  double skew = 0;              ///< takes skew · ln(1 + i) from the i-th expert's logit: uneven on purpose

  /// Tokens that an expert takes of a sequence in training, at most.
  int64_t capacity_of(int64_t context) const;
};

/// Where the tokens of a pass went.
struct ExpertLoads {
  torch::Tensor tokens;   ///< int64 [experts]: those that each expert computed
  torch::Tensor dropped;  ///< int64 scalar: choices beyond an expert's capacity
};

/// Experts of two linear layers with GELU between them, and the gate that chooses among them.
///
/// Token choice: each token goes to the k experts that a softmax makes likeliest (Shazeer et al. 2017,
/// arXiv:1701.06538); what they make of it is weighted by their probabilities, for k > 1 made to add up to 1.
/// With a capacity, in training, an expert takes the first tokens of each sequence that choose it; others
/// pass by (GShard, Lepikhin et al. 2020, arXiv:2006.16668, with a sequence as its group). Expert choice:
/// each expert takes the tokens of the whole batch that it is likeliest for, equally many each (Zhou et al.
/// 2022, arXiv:2202.09368): samples influence each other, and tokens those before them.
class ExpertsImpl final : public torch::nn::Module {
 public:
  /// @param deviation of the first weights of what is added to the residual stream.
  /// @param context the longest sequence, whose even share the capacity is a multiple of.
  ExpertsImpl(int64_t width, int64_t context, const ExpertOptions& options, double deviation);

  /// @param x [n, length, width]
  torch::Tensor forward(const torch::Tensor& x);

  /// How unevenly the last pass chose, for each sequence: experts · Σ f · P, with f the share of choices and
  /// P the mean probability of an expert among the sequence's tokens that count; 1 where it is even. With
  /// gradient; f has none (Fedus et al. 2021, arXiv:2101.03961, of a sequence in the place of a batch: a sum
  /// over sequences is the same however a batch is cut). Nothing of expert choice, which is even.
  /// @param counted bool [n, length]. @return [n] float32
  torch::Tensor balance(const torch::Tensor& counted) const;

  const ExpertLoads& loads() const { return loads_; }

  /// Drops what the last pass left for its balance, and with it the pass's history.
  void forget();

  /// As linear layers compute with weights of fewer bits (linear.h), each expert's two with scales of its
  /// own. For inference. @return how many layers do: of four bits none of a shape for which there is no
  /// kernel.
  int64_t quantize();
  int64_t keep_int8();
  int64_t keep_int4(int64_t group);

  int64_t layers() const { return 2 * o_.experts; }  ///< linear ones, the gate not among them
  int64_t bytes_of_one() const;
  int64_t products_of_token() const;  ///< multiplications with a weight, the gate's included

 private:
  struct Choice;
  using Packing =
      std::function<std::optional<LinearProduct>(const torch::Tensor& weight, const torch::Tensor& bias)>;

  torch::Tensor probabilities_of(const torch::Tensor& tokens);
  Choice choose_experts(const torch::Tensor& probabilities);
  Choice choose_tokens(const torch::Tensor& probabilities) const;
  torch::Tensor keep_capacity(const torch::Tensor& chosen);
  torch::Tensor compute(const torch::Tensor& tokens, const Choice& choice);
  int64_t pack(const Packing& packing);

  const ExpertOptions o_;
  const int64_t capacity_;
  Linear gate_{nullptr};
  torch::Tensor expand_, expand_bias_, contract_, contract_bias_;  // one for each expert, first dimension
  torch::Tensor probabilities_, chosen_;                           // of the last pass, for its balance
  ExpertLoads loads_;
  std::vector<LinearProduct> packed_expand_, packed_contract_;  // of each expert; empty: by the tensors
};

TORCH_MODULE(Experts);

/// A model with layers of experts.
class Mixture {
 public:
  virtual ~Mixture() = default;

  virtual const ExpertOptions& expert_options() const = 0;

  /// Its layers of experts.
  virtual std::vector<Experts> expert_layers() const = 0;
};

/// Distinct experts that `tokens` tokens read of a layer, of an even gate: E · (1 − (1 − k ÷ E)^tokens).
double distinct_experts(const ExpertOptions& options, double tokens);

}  // namespace autotrain
