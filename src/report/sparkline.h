#pragma once

#include <string>
#include <vector>

namespace autotrain {

/// Values as a line of block characters from ▁ (0) to █ (the largest); not finite or negative ones leave a
/// space.
std::string sparkline(const std::vector<double>& values);

}  // namespace autotrain
