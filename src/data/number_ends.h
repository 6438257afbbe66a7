#pragma once

#include <cstdint>
#include <limits>
#include <optional>

namespace autotrain {

/// The two least and the two most of many numbers, and how often the outermost are there.
class NumberEnds {
 public:
  /// @param number finite.
  void add(double number);

  /// The outermost number where it may stand for what is missing, as -999, 9999.9, 1e20 or a format's own
  /// number do: it is there again and again and further from all others than ten times the distance that
  /// these have (of nines alone, once), or it is there once and a thousand times as far. Nothing: there is
  /// none, or fewer than four different numbers. @param of_classes three are enough.
  std::optional<double> stand_in(bool of_classes = false) const;

 private:
  static constexpr double kNone = std::numeric_limits<double>::infinity();

  double least_ = kNone, second_least_ = kNone, second_most_ = -kNone, most_ = -kNone;
  int64_t of_least_ = 0, of_most_ = 0;
};

}  // namespace autotrain
