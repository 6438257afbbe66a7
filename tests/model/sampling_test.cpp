#include "model/sampling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace autotrain {
namespace {

std::vector<float> random_logits(Random& random, int64_t count) {
  std::vector<float> logits;
  for (int64_t i = 0; i < count; ++i)
    logits.push_back(static_cast<float>(random.below(9)) / 2);  // with equal ones
  return logits;
}

// What the rule means, said another way: a token stays when few enough are before it, and they are improbable
// enough together.
std::vector<double> plainly(const std::vector<float>& logits, const SamplingRule& rule) {
  const size_t n = logits.size();
  const auto before = [&](size_t a, size_t b) {
    return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
  };
  std::vector<double> p(n, 0.0);
  const auto normalise = [&] {
    const double sum = std::accumulate(p.begin(), p.end(), 0.0);
    for (double& each : p) each /= sum;
  };
  for (size_t i = 0; i < n; ++i) {
    int64_t rank = 0;
    for (size_t j = 0; j < n; ++j) rank += before(j, i);
    if (rank < rule.top_k.value_or(static_cast<int64_t>(n))) p[i] = std::exp(logits[i] / rule.temperature);
  }
  normalise();
  std::vector<double> kept(n, 0.0);
  for (size_t i = 0; i < n; ++i) {
    double above = 0;
    for (size_t j = 0; j < n; ++j) above += before(j, i) ? p[j] : 0;
    if (above < rule.top_p.value_or(2) - 1e-12) kept[i] = p[i];
  }
  p = kept;
  normalise();
  return p;
}

TEST(Sampling, LeavesTheTokensAndProbabilitiesThatTheRuleSays) {
  Random random(1);
  for (int round = 0; round < 300; ++round) {
    const auto logits = random_logits(random, 1 + random.below(12));
    SamplingRule rule{.temperature = 0.3 + 2 * random.uniform()};
    if (round % 2 == 0) rule.top_k = 1 + random.below(8);
    if (round % 3 == 0) rule.top_p = 0.05 + 0.9 * random.uniform();
    const std::vector<double> expected = plainly(logits, rule);
    std::vector<double> got(logits.size(), 0.0);
    for (const Candidate& each : candidates(logits, rule))
      got[static_cast<size_t>(each.token)] = each.probability;
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-9) << "round " << round;
  }
}

TEST(Sampling, TemperatureZeroTakesTheFirstOfTheLikeliest) {
  Random random(1);
  EXPECT_EQ(draw_token(std::vector<float>{1, 7, 3, 7}, {}, random), 1);
}

TEST(Sampling, TokensThatCannotBeAreNeverDrawn) {
  Random random(2);
  const std::vector<float> logits = {-INFINITY, 0, -INFINITY, 0};
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(draw_token(logits, {.temperature = 5}, random) % 2, 1);
}

TEST(Sampling, DrawsAsOftenAsIsProbable) {
  const std::vector<float> logits = {0, 1, 2, 1, -1};
  const SamplingRule rule{.temperature = 1.5, .top_k = 4, .top_p = 0.95};
  const std::vector<double> expected = plainly(logits, rule);
  std::vector<int64_t> counts(logits.size());
  constexpr int kDraws = 40'000;
  for (int i = 0; i < kDraws; ++i) {
    Random random(derive_key(9, i));
    ++counts[static_cast<size_t>(draw_token(logits, rule, random))];
  }
  double chi_squared = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (expected[i] == 0) {
      EXPECT_EQ(counts[i], 0);
      continue;
    }
    const double mean = kDraws * expected[i];
    chi_squared += (static_cast<double>(counts[i]) - mean) * (static_cast<double>(counts[i]) - mean) / mean;
  }
  EXPECT_LT(chi_squared, 16.3);  // three degrees of freedom: 1 in 1000, and the seed is fixed
}

}  // namespace
}  // namespace autotrain
