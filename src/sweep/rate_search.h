#pragma once

#include <optional>
#include <vector>

namespace autotrain {

struct TriedRate {
  double rate = 0;  ///< samples a second
  bool holds = false;
};

/// The largest rate that holds below all that do not: one that holds beyond a rate that failed is luck.
/// Nothing: none does.
std::optional<double> held_rate(const std::vector<TriedRate>& tried);

/// What to try next in the search of the largest rate that holds, to three digits: half-way between the
/// largest that holds and the smallest that does not, where only one of them is known a step beyond it.
/// Nothing: the two are within 5 % of each other.
/// @param start the first to try, which may well hold.
std::optional<double> next_rate(const std::vector<TriedRate>& tried, double start);

/// To three significant digits, as rates are tried and told.
double three_digits(double rate);

}  // namespace autotrain
