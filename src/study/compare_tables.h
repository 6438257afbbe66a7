#pragma once

#include <string>
#include <vector>

#include "study/comparison.h"

namespace autotrain {

/// A table of a comparison for people.
struct ComparisonTable {
  std::string title = {};
  std::vector<std::string> header = {};
  std::vector<std::vector<std::string>> rows = {};
};

/// What there is to say of a comparison, most important first; tables that would be empty are left out.
std::vector<ComparisonTable> tables_of(const Comparison& comparison);

/// "0.8912 ± 0.0021": mean and standard deviation; "-" of no value.
std::string spread_text(const Spread& spread);

/// "not distinguishable with these seeds; about 23 of each would be needed".
std::string verdict_text(const Difference& difference, const ComparisonTerms& terms);

}  // namespace autotrain
