#include "data/number_ends.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/text.h"

namespace autotrain {
namespace {

bool is_of_nines(double value) {
  const std::string digits = shortest(std::abs(value));
  return digits.size() >= 2 && digits.find_first_not_of('9') == std::string::npos;
}

// @param gap to the nearest of the others. @param width from the least to the most of them.
bool is_apart(double value, int64_t times, double gap, double width) {
  constexpr double kRepeated = 10, kOnce = 1000;
  if (times > 1 && is_of_nines(value)) return gap > width;
  return gap > (times > 1 ? kRepeated : kOnce) * width;
}

}  // namespace

void NumberEnds::add(double number) {
  if (number == least_) {
    ++of_least_;
  } else if (number < least_) {
    second_least_ = least_, least_ = number, of_least_ = 1;
  } else {
    second_least_ = std::min(second_least_, number);
  }
  if (number == most_) {
    ++of_most_;
  } else if (number > most_) {
    second_most_ = most_, most_ = number, of_most_ = 1;
  } else {
    second_most_ = std::max(second_most_, number);
  }
}

std::optional<double> NumberEnds::stand_in(bool of_classes) const {
  const bool enough = of_classes ? second_least_ < most_ : second_least_ < second_most_;
  if (!enough) return std::nullopt;
  if (is_apart(least_, of_least_, second_least_ - least_, most_ - second_least_)) return least_;
  if (is_apart(most_, of_most_, most_ - second_most_, second_most_ - least_)) return most_;
  return std::nullopt;
}

}  // namespace autotrain
