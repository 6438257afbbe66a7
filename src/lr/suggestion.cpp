#include "lr/suggestion.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/text.h"

namespace autotrain {
namespace {

constexpr double kAgreement = 3;  // most, greatest suggestion ÷ least

// Of a stretch that has an edge or a valley's end.
double suggestion_of(const RateStretch& stretch) {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  return std::min(stretch.edge.value_or(kNone) / kBelowEdge,
                  stretch.valley_end.value_or(kNone) / kBelowValleyEnd);
}

constexpr double kMemory = 10;  // readings of a sample, by which a fall of the loss may be memory alone

double share_of(int64_t updates, const RangeReading& reading) {
  if (reading.samples == 0) return 0;
  return static_cast<double>(updates) * static_cast<double>(reading.effective_batch) /
         static_cast<double>(reading.samples);
}

// How often each sample was read while the loss fell.
double times_learned(const RateStretch& stretch, const RangeReading& reading) {
  if (!stretch.steepest) return 0;
  const double first = *stretch.steepest / 10, last = stretch.valley_end.value_or(*stretch.steepest);
  return share_of(std::ranges::count_if(stretch.points,
                                        [&](const RatePoint& p) { return p.lr >= first && p.lr <= last; }),
                  reading);
}

std::string why_memory(const std::vector<RateStretch>& stretches, const RangeReading& reading) {
  for (const RateStretch& stretch : stretches) {
    const double times = times_learned(stretch, reading);
    if (times < kMemory) continue;
    return cat("the loss fell while each of the ", reading.samples, " samples was read ", brief(times, 2),
               " times, so that it may show memory and no rate: more samples, a smaller batch.effective, or "
               "autotrain lr --race, which compares on validation data");
  }
  return "";
}

// Why a stretch suggests nothing; "" when it does.
std::string why_none(const RateStretch& stretch) {
  if (stretch.diverges && !stretch.edge)
    return "training diverges at the smallest rate: give a smaller --from";
  if (!stretch.edge && !(stretch.valley_end && stretch.steepest))
    return "up to the largest rate nothing diverges, nor does the loss fall and rise: give a larger --to";
  if (!stretch.steepest) {
    return "the loss does not fall clearly, beside how much it changes from window to window: a larger "
           "batch.effective, or a --factor nearer to 1";
  }
  return "";
}

// Of the stretches that have the rate.
std::optional<RateSpread> spread_over(const std::vector<RateStretch>& stretches,
                                      std::optional<double> RateStretch::*rate) {
  std::vector<double> rates;
  for (const RateStretch& stretch : stretches) {
    if (stretch.*rate) rates.push_back(*(stretch.*rate));
  }
  return spread_of(rates);
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

double times_read(const RateStretch& stretch, const RangeReading& reading) {
  return share_of(std::ssize(stretch.points), reading);
}

RateSuggestion suggest(const std::vector<RateStretch>& stretches, const LearningRatePlan& plan,
                       const RangeReading& reading) {
  RateSuggestion found{.edge = spread_over(stretches, &RateStretch::edge),
                       .steepest = spread_over(stretches, &RateStretch::steepest),
                       .valley_end = spread_over(stretches, &RateStretch::valley_end)};
  found.why_not = why_undetermined(stretches);
  if (found.why_not.empty()) found.why_not = why_memory(stretches, reading);
  if (!found.why_not.empty()) return found;
  std::vector<double> suggestions;
  for (const RateStretch& stretch : stretches) suggestions.push_back(suggestion_of(stretch));
  const RateSpread all = spread_of(suggestions).value();
  if (all.spread > kAgreement) {
    found.why_not = cat("the stretches lie ", brief(all.spread, 2), " times apart");
    return found;
  }
  found.lr = all.mean;
  found.recipe_lr = *found.lr * plan.base / plan.scaled;
  return found;
}

}  // namespace autotrain
