#include "data/low_values.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/text.h"

namespace autotrain {

void doubt_low_values(int64_t largest, const std::string& place, const std::string& otherwise,
                      DataLook& look) {
  constexpr int64_t kWhite = 255, kLow = 31;  // five bits: an eighth of what bytes can be
  if (largest <= 0 || largest > kLow) return;
  look.doubt("images whose largest value is small, and all are divided by 255",
             cat("save them times ", kWhite / largest, otherwise),
             cat(place, ": the largest value is ", largest, ", which becomes ",
                 brief(static_cast<double>(largest) / kWhite, 2)));
}

void doubt_large_targets(double least, double most, const std::string& place, DataLook& look) {
  constexpr double kLarge = 10'000, kSteps = 1e-4;  // of what lies between the least and the most
  const double largest = std::max(std::abs(least), std::abs(most));
  const double step = largest * double{std::numeric_limits<float>::epsilon()};
  if (!(largest >= kLarge) || least == most) return;
  look.doubt("targets of large numbers, which are predicted as they are",
             "write them as differences from their mean, or divided, to some -10 to 10",
             cat(place, ": ", brief(least), " to ", brief(most),
                 step > kSteps * (most - least) ? cat(", as float32 in steps of ", brief(step, 2)) : ""));
}

}  // namespace autotrain
