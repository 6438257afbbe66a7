#include "study/halving.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "measure/timing.h"

namespace autotrain {

// How many of a rung's points go on.
size_t Halving::part_of(size_t points) const {
  const auto part = static_cast<size_t>(std::ceil(static_cast<double>(points) / rules_.factor));
  return std::min(points, std::max(part, rules_.least_survivors));
}

// As many rungs as leave a single point in the last one, if so many are allowed.
Halving::Halving(size_t points, size_t seeds, HalvingRules rules) : seeds_(seeds), rules_(rules) {
  running_.emplace_back(points);
  std::iota(running_[0].begin(), running_[0].end(), size_t{0});
  double left = static_cast<double>(points) / rules_.factor;
  for (; left >= 1 && rungs() < rules_.most_rungs; left /= rules_.factor) {
    std::vector<size_t> first = running_.back();
    first.resize(part_of(first.size()));
    running_.push_back(std::move(first));
  }
  costs_.resize(rungs());
}

double Halving::share(size_t rung) const {
  return std::pow(rules_.factor, static_cast<double>(rung) - static_cast<double>(rungs() - 1));
}

double Halving::planned_work() const {
  double work_of_points = 0;
  for (size_t rung = 0; rung < rungs(); ++rung)
    work_of_points += work(rung) * static_cast<double>(running(rung).size());
  return work_of_points * static_cast<double>(seeds_);
}

bool Halving::wanted(size_t rung, size_t point) const {
  return std::ranges::binary_search(running(rung), point);
}

void Halving::add(size_t rung, size_t point, double cost) {
  costs_.at(rung)[point].push_back(std::isfinite(cost) ? cost : std::numeric_limits<double>::infinity());
  for (size_t next = rung + 1; next < rungs(); ++next) running_[next] = survivors_of(next - 1);
}

bool Halving::is_over(size_t rung) const {
  return std::ranges::all_of(running(rung), [&](size_t point) {
    const auto found = costs_[rung].find(point);
    return found != costs_[rung].end() && found->second.size() >= seeds_;
  });
}

double Halving::median(size_t rung, size_t point) const {
  const auto found = costs_.at(rung).find(point);
  if (found == costs_[rung].end()) return std::numeric_limits<double>::quiet_NaN();
  return median_of(found->second);
}

// A point most of whose runs failed has no median, and does not go on, however few are left.
std::vector<size_t> Halving::survivors_of(size_t rung) const {
  std::vector<size_t> points = running(rung);
  const size_t go_on = part_of(points.size());
  if (is_over(rung)) {
    std::erase_if(points, [&](size_t point) { return !std::isfinite(median(rung, point)); });
    std::ranges::stable_sort(points, {}, [&](size_t point) { return median(rung, point); });
  }
  points.resize(std::min(go_on, points.size()));
  std::ranges::sort(points);
  return points;
}

}  // namespace autotrain
