#pragma once

#include <map>
#include <string>
#include <vector>

namespace autotrain {

/// Which of two values of a figure is the better one.
enum class Better { kLower, kHigher };

/// What a figure means. The best checkpoint, early stopping, comparisons and pages go by it.
struct FigureKind {
  Better better = Better::kLower;
  bool share = false;     ///< a share of something: from 0 to 1
  std::string unit = {};  ///< empty: a pure number

  /// A mean of 0 and 1 over the samples of the evaluation, each of which counts once: how far chance moves it
  /// on so many samples is then known. Not so of areas, F1, or means over tokens, pixels or labels.
  bool of_samples = false;
  bool operator==(const FigureKind&) const = default;
};

using FigureKinds = std::map<std::string, FigureKind>;

/// A number that was measured over a whole data set.
struct Figure {
  std::string name = {};
  double value = 0;
  FigureKind kind = {};
};

/// Numbers that belong together, such as a confusion matrix.
struct FigureTable {
  std::string name = {};
  std::string rows_are = {};     ///< "true class"
  std::string columns_are = {};  ///< "predicted class"
  std::vector<std::vector<double>> cells = {};
  bool operator==(const FigureTable&) const = default;
};

}  // namespace autotrain
