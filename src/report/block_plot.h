#pragma once

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

namespace autotrain {

/// Points with a mark of their own each.
struct BlockSeries {
  std::string name = {};
  std::vector<double> x = {}, y = {};  ///< of one length; points that are not finite are left out
};

/// A plot in text: marks on a grid between two axes, the ends of both labelled, the names of marks below.
struct BlockPlot {
  std::string title = {};
  std::vector<BlockSeries> series = {};
  bool log_x = false, log_y = false;  ///< then points that are not above zero are left out
  size_t width = 60, height = 12;     ///< characters of the grid, at least 2 each
  std::function<std::string(double)> x_text = nullptr, y_text = nullptr;  ///< null: four digits
  bool colour = false;  ///< marks in colours, by ANSI escapes; see `wants_colour`

  std::string text() const;
};

/// Whether colours suit `out`: a terminal, and NO_COLOR is not set (https://no-color.org).
bool wants_colour(std::FILE* out);

}  // namespace autotrain
