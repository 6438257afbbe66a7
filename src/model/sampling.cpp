#include "model/sampling.h"

#include <algorithm>
#include <cmath>

namespace autotrain {
namespace {

// The likeliest `count` tokens in order.
std::vector<Candidate> likeliest(std::span<const float> logits, int64_t count) {
  std::vector<Candidate> all(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) all[i] = {static_cast<int64_t>(i), logits[i]};
  const auto end = all.begin() + std::min(count, std::ssize(all));
  std::ranges::partial_sort(all, end, [](const Candidate& a, const Candidate& b) {
    return a.probability != b.probability ? a.probability > b.probability : a.token < b.token;
  });
  all.erase(end, all.end());
  return all;
}

// Logits, largest first, become probabilities.
void apply_softmax(std::vector<Candidate>& all, double temperature) {
  const double largest = all.front().probability;
  double sum = 0;
  for (Candidate& each : all) sum += each.probability = std::exp((each.probability - largest) / temperature);
  for (Candidate& each : all) each.probability /= sum;
}

void keep_top_p(std::vector<Candidate>& all, double top_p) {
  double sum = 0;
  size_t kept = 0;
  while (kept < all.size() && (kept == 0 || sum < top_p)) sum += all[kept++].probability;
  all.resize(kept);
  for (Candidate& each : all) each.probability /= sum;
}

}  // namespace

std::vector<Candidate> candidates(std::span<const float> logits, const SamplingRule& rule) {
  if (rule.temperature == 0) {
    // Of equal ones the first.
    return {{std::ranges::max_element(logits) - logits.begin(), 1}};
  }
  std::vector<Candidate> all = likeliest(logits, rule.top_k.value_or(std::ssize(logits)));
  apply_softmax(all, rule.temperature);
  if (rule.top_p) keep_top_p(all, *rule.top_p);
  return all;
}

int64_t draw_token(std::span<const float> logits, const SamplingRule& rule, Random& random) {
  std::vector<Candidate> all = candidates(logits, rule);
  if (all.size() == 1) return all.front().token;
  // In the order of their numbers: where rounding swaps two that are about as likely, borders move by
  // rounding alone.
  std::ranges::sort(all, {}, &Candidate::token);
  double left = random.uniform();
  for (const Candidate& each : all) {
    if (left < each.probability) return each.token;
    left -= each.probability;
  }
  return all.back().token;  // rounding
}

}  // namespace autotrain
