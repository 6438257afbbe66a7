#pragma once

#include <torch/types.h>

#include "model/boxes.h"

namespace autotrain {

/// How points are given to boxes: Feng et al. 2021, section 3.3. A point whose cell could hold the box's
/// middle, or which lies in the box, is measured by s^alpha · u^beta, of its score s of the box's class and
/// the overlap u of its box; the box gets the so many points with the largest.
struct TaskAlignedOptions {
  double alpha = 1;
  double beta = 6;
  int64_t points_of_a_box = 13;
  int64_t elements_at_once = 1 << 20;  ///< of images × boxes × points, which bounds memory; a box at least
};

/// What the points of a batch are to say. Without gradients.
struct Assignment {
  torch::Tensor scores;  ///< [n, points, classes]: 0, or of a point's box the aligned score of its class
  torch::Tensor boxes;   ///< [n, points, 4] edges in pixels; of points without a box some box
  torch::Tensor weight;  ///< [n, points]: the aligned score of a point's box, 0 without one
};

/// Every image is assigned by itself, so that no cut of a batch changes it. Memory does not grow with boxes
/// but by some numbers for each.
/// @param boxes [n, points, 4]: what `output` says, edges in pixels.
/// @param targets [n, most boxes, 5 or more]: class, centre x, y, width, height as parts of the image; a
/// class below 0 fills up.
Assignment assign_points(const TaskAlignedOptions& options, const YoloOutput& output,
                         const torch::Tensor& boxes, const torch::Tensor& targets);

}  // namespace autotrain
