#include "data/low_values.h"

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

}  // namespace autotrain
