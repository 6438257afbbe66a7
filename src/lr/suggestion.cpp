#include "lr/suggestion.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace autotrain {
namespace {

constexpr double kAgreement = 3;  // most, greatest suggestion ÷ least

double suggestion_of(const RateStretch& stretch) {
  return std::min(*stretch.edge / kBelowEdge, *stretch.steepest);
}

// Why a stretch suggests nothing; "" when it does.
std::string why_none(const RateStretch& stretch) {
  if (!stretch.diverges) return "training does not diverge at the largest rate: give a larger --to";
  if (!stretch.edge) return "training diverges at the smallest rate: give a smaller --from";
  if (!stretch.steepest) {
    return "the loss does not fall clearly, beside how much it changes from window to window: a larger "
           "batch.effective, or a --factor nearer to 1";
  }
  return "";
}

std::string why_undetermined(const std::vector<RateStretch>& stretches) {
  for (size_t i = 0; i < stretches.size(); ++i) {
    const std::string why = why_none(stretches[i]);
    if (!why.empty()) return cat("on stretch ", i + 1, " ", why);
  }
  return "";
}

}  // namespace

std::optional<RateSpread> spread_of(const std::vector<double>& rates) {
  if (rates.empty()) return std::nullopt;
  double logarithms = 0;
  for (const double rate : rates) logarithms += std::log(rate);
  const auto [least, greatest] = std::ranges::minmax(rates);
  return RateSpread{std::exp(logarithms / static_cast<double>(rates.size())), greatest / least};
}

RateSuggestion suggest(const std::vector<RateStretch>& stretches, const LearningRatePlan& plan) {
  std::vector<double> edges, steepest;
  for (const RateStretch& stretch : stretches) {
    if (stretch.edge) edges.push_back(*stretch.edge);
    if (stretch.steepest) steepest.push_back(*stretch.steepest);
  }
  RateSuggestion found{.edge = spread_of(edges), .steepest = spread_of(steepest)};
  found.why_not = why_undetermined(stretches);
  if (!found.why_not.empty()) return found;
  std::vector<double> suggestions;
  for (const RateStretch& stretch : stretches) suggestions.push_back(suggestion_of(stretch));
  const double apart = spread_of(suggestions)->spread;
  if (apart > kAgreement) {
    found.why_not = cat("the stretches lie ", brief(apart, 2), " times apart");
    return found;
  }
  found.lr = std::min(found.edge->mean / kBelowEdge, found.steepest->mean);
  found.recipe_lr = *found.lr * plan.base / plan.scaled;
  return found;
}

}  // namespace autotrain
