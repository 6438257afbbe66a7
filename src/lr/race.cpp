#include "lr/race.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace autotrain {
namespace {

struct Centre {
  double lr = 0;  // at the plan's effective batch
  std::string why = {};
};

Centre centre_of(const LearningRateTest& test) {
  const RateSuggestion& found = test.suggestion;
  if (found.lr) return {*found.lr, "which the range test suggests"};
  std::vector<Centre> known;
  if (found.edge) known.push_back({found.edge->mean / kBelowEdge, "a quarter of the divergence edge"});
  if (found.valley_end)
    known.push_back(
        {found.valley_end->mean / kBelowValleyEnd, "a third of the rate up to which the loss is low"});
  if (known.empty()) return {test.plan.lr.scaled, "the recipe's own: the range test found no other to go by"};
  Centre least = *std::ranges::min_element(known, {}, &Centre::lr);
  least.why += ": the range test is undetermined";
  return least;
}

// Whether two rates are too near to each other for a race to have anything to say.
bool nearly_same(double a, double b) {
  constexpr double kEighthOfADecade = 0.125;
  return std::abs(std::log10(a / b)) < kEighthOfADecade;
}

std::vector<double> each_once(std::vector<double> rates) {
  std::ranges::sort(rates);
  rates.erase(std::ranges::unique(rates).begin(), rates.end());
  return rates;
}

bool was_in(const Racer& racer, size_t rung) {
  return !std::isnan(racer.medians[rung]);
}

}  // namespace

double rounded_rate(double rate, int digits) {
  double rounded = 0;
  parse_real(brief(rate, digits), rounded);
  return rounded;
}

RateGrid rates_to_race(const LearningRateTest& test) {
  constexpr int kOnEitherSide = 2;
  const LearningRatePlan& plan = test.plan.lr;
  const Centre centre = centre_of(test);
  const double middle = centre.lr * plan.base / plan.scaled;
  std::vector<double> rates;
  for (int i = -kOnEitherSide; i <= kOnEitherSide; ++i)
    rates.push_back(rounded_rate(middle * std::pow(10, i / 2.0), kRateDigits));
  std::erase_if(rates, [&](double rate) { return nearly_same(rate, plan.base); });
  rates.push_back(plan.base);
  return {each_once(std::move(rates)), cat("around ", brief(middle, kRateDigits), ", ", centre.why)};
}

RateGrid rates_to_race(std::vector<double> asked, double own) {
  asked.push_back(own);
  return {each_once(std::move(asked)), "those of --rates and the recipe's own"};
}

std::vector<size_t> finishing_order(const RateRace& race) {
  std::vector<size_t> order;
  for (size_t i = 0; i < race.racers.size(); ++i) {
    if (std::isfinite(race.racers[i].medians.back())) order.push_back(i);
  }
  std::ranges::stable_sort(order, {}, [&](size_t i) {
    const Racer& racer = race.racers[i];
    return std::pair((race.lower_is_better ? 1 : -1) * racer.medians.back(), racer.lr != race.own_lr);
  });
  return order;
}

size_t rung_of(const Racer& racer) {
  size_t rung = 0;
  while (rung + 1 < racer.medians.size() && was_in(racer, rung + 1)) ++rung;
  return rung;
}

RacerFate fate_of(const RateRace& race, size_t number) {
  const Racer& racer = race.racers[number];
  const size_t rung = rung_of(racer);
  if (!std::isfinite(racer.medians[rung]))
    return racer.failed > 0 ? RacerFate::kFailed : RacerFate::kDiverged;
  if (rung + 1 < race.shares.size()) return RacerFate::kLeftOut;
  return finishing_order(race).front() == number ? RacerFate::kWon : RacerFate::kFinished;
}

GridEnd grid_end_of(const RateRace& race) {
  const std::vector<size_t> order = finishing_order(race);
  if (order.empty()) return GridEnd::kNone;
  if (order.front() == 0) return GridEnd::kSmallest;
  return order.front() + 1 == race.racers.size() ? GridEnd::kLargest : GridEnd::kNone;
}

}  // namespace autotrain
