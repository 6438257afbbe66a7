#include "sweep/rate_search.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/text.h"

namespace autotrain {
namespace {

constexpr double kNearEnough = 1.05;
constexpr double kUp = 1.25, kDown = 0.5;  // where nothing bounds the search on that side

double smallest_that_fails(const std::vector<TriedRate>& tried) {
  double smallest = std::numeric_limits<double>::infinity();
  for (const TriedRate& each : tried) {
    if (!each.holds) smallest = std::min(smallest, each.rate);
  }
  return smallest;
}

}  // namespace

std::optional<double> held_rate(const std::vector<TriedRate>& tried) {
  const double fails = smallest_that_fails(tried);
  std::optional<double> held;
  for (const TriedRate& each : tried) {
    if (each.holds && each.rate < fails) held = std::max(held.value_or(0), each.rate);
  }
  return held;
}

std::optional<double> next_rate(const std::vector<TriedRate>& tried, double start) {
  if (tried.empty()) return three_digits(start);
  const double fails = smallest_that_fails(tried);
  const auto holds = held_rate(tried);
  if (holds && fails / *holds <= kNearEnough) return std::nullopt;
  double next = kDown * fails;
  if (holds) next = std::isinf(fails) ? std::max(kUp * *holds, start) : (*holds + fails) / 2;
  next = three_digits(next);
  const bool new_one = std::ranges::count(tried, next, &TriedRate::rate) == 0;
  return new_one ? std::optional(next) : std::nullopt;
}

double three_digits(double rate) {
  double rounded = rate;
  parse_real(brief(rate, 3), rounded);
  return rounded;
}

}  // namespace autotrain
