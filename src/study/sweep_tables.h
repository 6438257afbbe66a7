#pragma once

#include <string>
#include <vector>

#include "study/sweep.h"

namespace autotrain {

/// A table as text, for the terminal and for pages.
struct TableCells {
  std::vector<std::string> header = {};
  std::vector<std::vector<std::string>> rows = {};
};

/// "0.0251", "5.31", "1360".
std::string milliseconds(double seconds);

/// Every batch with its latency, throughput and memory.
TableCells point_cells(const SweepVariant& variant);

/// Prediction, measurement and their ratio, a row for each variant that has both.
TableCells roofline_cells(const Sweep& sweep);

/// What was counted, a row for each operator that multiplies, and one for all others together.
TableCells operator_cells(const SweepVariant& variant);

}  // namespace autotrain
