#include "compare/key_effects.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "compare/compare_columns.h"
#include "study/statistics.h"

namespace autotrain {
namespace {

using Values = std::vector<double>;

// The values of each recipe; nothing where a run has none, or recipes have different numbers of runs.
std::vector<Values> balanced_values(const Comparison& c) {
  std::vector<Values> values;
  for (size_t i = 0; i < c.recipes.size(); ++i) {
    if (!spread_on(c.recipes[i], FairAxis::kSamples).complete() || c.recipes[i].unfinished > 0) return {};
    values.push_back(values_on(c, i, FairAxis::kSamples));
    if (values.back().size() != values.front().size()) return {};
  }
  return values;
}

bool is_whole_grid(const Comparison& c) {
  size_t points = 1;
  for (const DifferingKey& axis : c.terms.axes)
    points *= std::set<std::string>(axis.values.begin(), axis.values.end()).size();
  return points == c.recipes.size();
}

double sum_of_squares(const Values& values, double about) {
  double sum = 0;
  for (const double value : values) sum += (value - about) * (value - about);
  return sum;
}

}  // namespace

std::vector<KeyEffect> key_effects(const Comparison& c) {
  if (c.terms.axes.empty() || !is_whole_grid(c)) return {};
  const std::vector<Values> values = balanced_values(c);
  if (values.empty()) return {};
  Values all, of_points;
  for (const Values& each : values) {
    all.insert(all.end(), each.begin(), each.end());
    of_points.push_back(mean(each));
  }
  const double middle = mean(all), whole = sum_of_squares(all, middle);
  if (!(whole > 0)) return {};
  const auto runs = static_cast<double>(values.front().size());
  std::vector<KeyEffect> effects;
  double left = runs * sum_of_squares(of_points, middle) / whole;  // that points account for
  const double of_seeds = 1 - left;
  for (const DifferingKey& axis : c.terms.axes) {
    std::map<std::string, Values> by_value;
    for (size_t i = 0; i < values.size(); ++i) by_value[axis.values[i]].push_back(of_points[i]);
    if (by_value.size() < 2) continue;
    KeyEffect effect{.path = axis.path, .what = axis.path, .least = HUGE_VAL, .most = -HUGE_VAL};
    for (const auto& [value, points] : by_value) {
      const double level = mean(points);
      effect.share += runs * static_cast<double>(points.size()) * (level - middle) * (level - middle) / whole;
      effect.least = std::min(effect.least, level);
      effect.most = std::max(effect.most, level);
    }
    left -= effect.share;
    effects.push_back(effect);
  }
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  if (effects.size() > 1)
    effects.push_back({.what = "keys together", .share = std::max(0.0, left), .least = kNaN, .most = kNaN});
  if (runs > 1) effects.push_back({.what = "seeds", .share = of_seeds, .least = kNaN, .most = kNaN});
  return effects;
}

}  // namespace autotrain
