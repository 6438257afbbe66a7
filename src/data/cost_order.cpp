#include "data/cost_order.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <unordered_set>
#include <utility>

#include "base/units.h"

namespace autotrain {
namespace {

// Sorts as (cost, −position) does, largest first: of equal costs the earlier position.
using Costed = std::pair<int64_t, int64_t>;

Piece positions_of(const std::vector<Costed>& sorted) {
  Piece piece;
  piece.positions.reserve(sorted.size());
  for (const Costed& sample : sorted) piece.positions.push_back(-sample.second);
  return piece;
}

}  // namespace

bool has_costs(const Dataset& dataset) {
  return dataset.size() > 0 && dataset.cost(0).has_value();
}

Piece window_of(const Dataset& dataset, const Stream& stream, int64_t position, int64_t samples) {
  Piece window = consecutive(position, samples);
  if (!has_costs(dataset)) return window;
  const std::vector<int64_t> indices = stream.draw(window).indices;
  std::vector<Costed> sorted;
  sorted.reserve(indices.size());
  for (size_t i = 0; i < indices.size(); ++i) {
    sorted.emplace_back(dataset.cost(indices[i]).value_or(0), -window.positions[i]);
  }
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  return positions_of(sorted);
}

// Holds no more than the window at any time: what a trial needs for itself is not to be measured.
Piece costliest_window(const Dataset& dataset, int64_t samples) {
  const int64_t size = dataset.size();
  const int64_t end = round_up(samples, size) + size;  // a window may begin in one epoch and end in another
  std::priority_queue<Costed, std::vector<Costed>, std::greater<>> most;  // the cheapest of them on top
  for (int64_t position = 0; position < end; ++position) {
    most.emplace(dataset.cost(position % size).value_or(0), -position);
    if (static_cast<int64_t>(most.size()) > samples) most.pop();
  }
  std::vector<Costed> sorted;
  for (; !most.empty(); most.pop()) sorted.push_back(most.top());
  std::reverse(sorted.begin(), sorted.end());
  return positions_of(sorted);
}

CostExtremes cost_extremes(const Dataset& dataset) {
  CostExtremes extremes;
  const auto cost = [&](int64_t index) { return dataset.cost(index).value_or(0); };
  for (int64_t i = 1; i < dataset.size(); ++i) {
    if (cost(i) < cost(extremes.cheapest)) extremes.cheapest = i;
    if (cost(i) > cost(extremes.dearest)) extremes.dearest = i;
  }
  return extremes;
}

int64_t distinct_costs(const Dataset& dataset) {
  std::unordered_set<int64_t> costs;
  for (int64_t i = 0; i < dataset.size(); ++i) costs.insert(dataset.cost(i).value_or(0));
  return std::ssize(costs);
}

}  // namespace autotrain
