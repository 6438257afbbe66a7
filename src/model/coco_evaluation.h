#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace autotrain {

/// A box of an image: left, top, width and height in any one unit.
struct CocoBox {
  double left = 0, top = 0, width = 0, height = 0;
};

struct CocoTruth {
  CocoBox box;
  int64_t category = 0;
  double area = 0;     ///< in square pixels: which sizes it is counted with
  bool crowd = false;  ///< a crowd: found in it is neither right nor wrong
};

struct CocoFound {
  CocoBox box;
  int64_t category = 0;
  double area = 0;  ///< in square pixels
  double score = 0;
};

struct CocoImage {
  std::vector<CocoTruth> truth = {};
  std::vector<CocoFound> found = {};  ///< the best 100 of each class count
};

inline constexpr size_t kCocoAreas = 4;  ///< all, small (to 32² square pixels), medium (to 96²), large
inline constexpr size_t kCocoThresholds = 10;  ///< of overlap: 0.50, 0.55, …, 0.95
inline constexpr size_t kCocoRecalls = 101;    ///< 0, 0.01, …, 1

/// What is told of one class, or of all. NaN where there is no object of that kind.
struct CocoFigures {
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  double precision = kNone;                               ///< mean over thresholds and recalls: AP, or mAP
  double precision50 = kNone;                             ///< at an overlap of 0.50
  double precision75 = kNone;                             ///< at 0.75
  std::array<double, 3> by_area = {kNone, kNone, kNone};  ///< small, medium, large
  std::array<double, 3> recall = {kNone, kNone, kNone};   ///< of the best 1, 10, 100 of an image
  std::array<double, 3> recall_by_area = {kNone, kNone, kNone};
};

struct CocoClass {
  CocoFigures figures = {};
  int64_t objects = 0;                            ///< that are no crowds
  std::array<double, kCocoRecalls> curve50 = {};  ///< precision at each recall, at an overlap of 0.50
};

struct CocoEvaluation {
  CocoFigures all = {};
  std::vector<CocoClass> classes = {};
};

/// Evaluates as COCO's own program does (cocodataset.org, "detection evaluation").
/// @param images in the order of their ids. Categories are below `classes`.
CocoEvaluation evaluate_coco(const std::vector<CocoImage>& images, int64_t classes);

/// How many objects of each class [row] were found as which [column], at an overlap of 0.5 and scores from
/// `least` on, the best pair first. The last row is what was found where nothing is, the last column what was
/// not found. Crowds are left out, and so is what is found in one of its class.
std::vector<std::vector<double>> confusion_of_boxes(const std::vector<CocoImage>& images, int64_t classes,
                                                    double least);

}  // namespace autotrain
