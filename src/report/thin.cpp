#include "report/thin.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace autotrain::page {
namespace {

constexpr double kNoValue = std::numeric_limits<double>::quiet_NaN();

struct Bucket {
  double sum = 0, low = kNoValue, high = kNoValue;
  size_t count = 0;

  void add(double value, double least, double greatest) {
    if (!std::isfinite(value)) return;
    sum += value;
    ++count;
    low = std::fmin(low, least);  // of a number and NaN, the number
    high = std::fmax(high, greatest);
  }
  double mean() const { return count > 0 ? sum / static_cast<double>(count) : kNoValue; }
};

}  // namespace

Thinned thin(const Series& whole, size_t most) {
  const size_t rows = whole.y.size();
  if (rows <= most) return {whole, 1};
  const size_t each = (rows + most - 1) / most;
  Series out = {.name = whole.name,
                .x = std::vector<std::vector<double>>(whole.x.size()),
                .draw = whole.draw,
                .smoothable = whole.smoothable,
                .colour = whole.colour};
  const bool banded = !whole.low.empty() && !whole.high.empty();
  if (banded) out.band = whole.band;
  for (size_t begin = 0; begin < rows; begin += each) {
    const size_t end = std::min(rows, begin + each);
    Bucket bucket;
    for (size_t i = begin; i < end; ++i) {
      bucket.add(whole.y[i], banded ? whole.low[i] : whole.y[i], banded ? whole.high[i] : whole.y[i]);
    }
    for (size_t axis = 0; axis < whole.x.size(); ++axis) out.x[axis].push_back(whole.x[axis][end - 1]);
    out.y.push_back(bucket.mean());
    out.low.push_back(bucket.low);
    out.high.push_back(bucket.high);
  }
  return {std::move(out), each};
}

}  // namespace autotrain::page
