#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/random.h"

namespace autotrain {

/// How the next token is chosen among a model's logits.
struct SamplingRule {
  double temperature = 0;             ///< logits are divided by it; 0: the likeliest token, always
  std::optional<int64_t> top_k = {};  ///< only the likeliest so many
  std::optional<double> top_p = {};   ///< only the likeliest that together have this probability
};

/// A token and how likely the rule makes it.
struct Candidate {
  int64_t token = 0;
  double probability = 0;
};

/// The tokens that the rule leaves, the likeliest first and of equal ones the smaller number first, with
/// their probabilities, which add up to 1. First temperature, then top k, then top p of what is left
/// (Holtzman et al. 2020, arXiv:1904.09751): as many as are needed to reach it, at least one.
/// @param logits not empty, finite or -∞, not all -∞.
std::vector<Candidate> candidates(std::span<const float> logits, const SamplingRule& rule);

/// One of them, drawn by their probabilities. Of temperature 0 nothing is drawn.
int64_t draw_token(std::span<const float> logits, const SamplingRule& rule, Random& random);

}  // namespace autotrain
