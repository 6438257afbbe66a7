#include "report/sparkline.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace autotrain {

std::string sparkline(const std::vector<double>& values) {
  constexpr std::array kBlocks = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  double largest = 0;
  for (const double value : values) {
    if (std::isfinite(value)) largest = std::max(largest, value);
  }
  std::string line;
  for (const double value : values) {
    if (!std::isfinite(value) || value < 0) {
      line += " ";
      continue;
    }
    const double share = largest > 0 ? value / largest : 0;
    line += kBlocks[std::min(kBlocks.size() - 1, static_cast<size_t>(share * kBlocks.size()))];
  }
  return line;
}

}  // namespace autotrain
