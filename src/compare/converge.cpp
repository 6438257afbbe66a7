#include "compare/converge.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "autotrain/error.h"
#include "autotrain/trainer.h"
#include "base/random.h"
#include "base/text.h"
#include "optim/lr_rules.h"
#include "recipe/reader.h"

namespace autotrain {
namespace {

constexpr const char *kBatch = "batch.effective", *kRule = "batch.lr_rule";

// A point of the grid: the number of its value on every axis.
using GridPoint = std::vector<size_t>;

Recipe load_with(const ConvergeOptions& options, const std::vector<std::string>& settings) {
  std::vector<std::string> overrides = options.overrides;
  overrides.insert(overrides.end(), settings.begin(), settings.end());
  return load_recipe(options.config, overrides);
}

std::vector<std::string> once_each(const std::vector<std::string>& words) {
  std::vector<std::string> once;
  for (const std::string& word : words) {
    if (std::ranges::count(once, word) == 0) once.push_back(word);
  }
  return once;
}

std::vector<std::string> rules_of(const ConvergeOptions& options) {
  if (!options.rules.empty()) return once_each(options.rules);
  if (options.axes.size() != 1 || options.axes[0].key != kBatch) return {};
  const std::string own = load_with(options, {}).batch.lr_rule;
  const std::string unscaled = lr_rule_for(LrRule::For::kAny).spec.name;
  return {own == unscaled ? lr_rule_for(LrRule::For::kPlain).spec.name : own, unscaled};
}

std::vector<Axis> axes_of(const ConvergeOptions& options) {
  std::vector<Axis> axes = options.axes;
  if (std::vector<std::string> rules = rules_of(options); !rules.empty())
    axes.push_back({kRule, std::move(rules)});
  std::set<std::string> keys;
  for (const Axis& axis : axes) {
    for (const std::string& key : axis.keys()) {
      if (keys.insert(key).second) continue;
      throw Error(ExitCode::kUsage, key == kRule ? "--rules" : "--vary", cat(quote(key), " is an axis twice"),
                  "name all of its values in one of them");
    }
  }
  return axes;
}

// The last axis runs fastest.
std::vector<GridPoint> whole_grid(const std::vector<Axis>& axes) {
  constexpr size_t kMost = 10'000;
  std::vector<GridPoint> points(1);  // of no axis, the one without values
  for (const Axis& axis : axes) {
    std::vector<GridPoint> longer;
    for (const GridPoint& point : points) {
      for (size_t value = 0; value < axis.values.size(); ++value) {
        longer.push_back(point);
        longer.back().push_back(value);
      }
    }
    points = std::move(longer);
    if (points.size() > kMost)
      throw Error(ExitCode::kUsage, "--vary", cat("makes a grid of more than ", kMost, " points"),
                  "leave values or axes out");
  }
  return points;
}

// The first `count` points of a shuffle (Durstenfeld 1964), in the grid's order.
std::vector<GridPoint> sampled(std::vector<GridPoint> points, size_t count, int64_t seed) {
  if (count >= points.size()) return points;
  std::vector<size_t> numbers(points.size());
  std::iota(numbers.begin(), numbers.end(), size_t{0});
  Random random(derive_key(static_cast<uint64_t>(RandomUse::kSplit), seed, points.size()));
  for (size_t i = 0; i < count; ++i) {
    const auto left = static_cast<int64_t>(numbers.size() - i);
    std::swap(numbers[i], numbers[i + static_cast<size_t>(random.below(left))]);
  }
  numbers.resize(count);
  std::ranges::sort(numbers);
  std::vector<GridPoint> drawn;
  for (const size_t number : numbers) drawn.push_back(std::move(points[number]));
  return drawn;
}

// "E64", "lars", "lr=0.1".
std::string short_name(const std::string& key, const std::string& value) {
  if (key == kBatch) return "E" + value;
  const bool word = is_letter(value[0]);
  if (word && value != "true" && value != "false" && value != "null") return value;
  return cat(key.substr(key.rfind('.') + 1), "=", value);
}

std::string label_of(const std::vector<Axis>& axes, const GridPoint& point, bool in_full) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < axes.size(); ++i) {
    const std::string& value = axes[i].values[point[i]];
    parts.push_back(in_full ? cat(axes[i].key, "=", value) : short_name(axes[i].key, value));
  }
  return join(parts, in_full ? " " : "-");
}

std::vector<std::string> labels_of(const std::vector<Axis>& axes, const std::vector<GridPoint>& points) {
  for (const bool in_full : {false, true}) {
    std::vector<std::string> labels;
    for (const GridPoint& point : points) labels.push_back(label_of(axes, point, in_full));
    if (in_full || once_each(labels).size() == labels.size()) return labels;
  }
  return {};
}

// Whether two points differ on one axis, and one of them has its first value there.
bool compares_with_first(const GridPoint& a, const GridPoint& b) {
  int64_t axes = 0;
  bool first = false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;
    ++axes;
    first = a[i] == 0 || b[i] == 0;
  }
  return axes == 1 && first;
}

Recipe recipe_at(const ConvergeOptions& options, const std::vector<Axis>& axes, const GridPoint& point) {
  std::vector<std::string> settings;
  bool varies_batch = false;
  for (size_t i = 0; i < axes.size(); ++i) {
    for (const std::string& key : axes[i].keys()) {
      settings.push_back(cat(key, "=", axes[i].values[point[i]]));
      varies_batch |= key == kBatch;
    }
  }
  Recipe recipe = load_with(options, settings);
  if (recipe.stop.updates && varies_batch)
    fail_recipe(recipe, "stop.updates", "means other samples at every batch size",
                "set stop.epochs or stop.samples instead");
  return recipe;
}

}  // namespace

CompareOptions convergence(const ConvergeOptions& options) {
  const std::vector<Axis> axes = axes_of(options);
  std::vector<GridPoint> points = whole_grid(axes);
  if (options.sample)
    points = sampled(std::move(points), static_cast<size_t>(*options.sample), load_with(options, {}).seed);
  const std::vector<std::string> labels = labels_of(axes, points);
  CompareOptions compare;
  compare.training_set = true;
  for (const Axis& axis : axes) compare.axes.push_back({.path = axis.key});
  for (size_t i = 0; i < points.size(); ++i) {
    compare.recipes.push_back({labels[i], recipe_at(options, axes, points[i])});
    for (size_t axis = 0; axis < axes.size(); ++axis)
      compare.axes[axis].values.push_back(axes[axis].values[points[i][axis]]);
    for (size_t other = 0; other < i; ++other) {
      if (compares_with_first(points[other], points[i])) compare.pairs.emplace_back(other, i);
    }
  }
  return compare;
}

}  // namespace autotrain
