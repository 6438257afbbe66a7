#pragma once

#include <memory>
#include <vector>

#include "autotrain/metrics.h"
#include "model/detections.h"

namespace autotrain {

/// Columns of a target: class, centre x, y, width, height as parts of the image; class −1 fills up.
inline constexpr int64_t kBoxColumns = 5;

/// Columns where a data set says more: whether it is a crowd, its area in pixels as annotated, how many of
/// those a pixel of the sample is, and where the image lies in the sample: left, top, right, bottom as parts
/// of it.
inline constexpr int64_t kLongBoxColumns = 12;

/// Columns of a found box: left, top, right, bottom in pixels of the sample, score, class. A score below 0
/// fills up.
inline constexpr int64_t kFoundColumns = 6;

/// Boxes of an image before suppression.
inline constexpr int64_t kCandidateBoxes = 1000;

/// The score from which on a box is shown as found: in the confusion matrix, and in pictures.
inline constexpr float kSureScore = 0.25f;

/// The boxes with the best scores of an output of model yolo, before suppression, best first:
/// [n, at most count, kFoundColumns] float32 on the output's device, for which nobody waits. A point stands
/// once for each class.
torch::Tensor best_boxes(const torch::Tensor& prediction, int64_t count);

/// The boxes of one image, [boxes, kFoundColumns] on the CPU, with suppression.
std::vector<Detection> suppressed_boxes(const torch::Tensor& found, const SuppressionOptions& options = {});

/// How well boxes are found, as COCO measures it: map, map50, map75, those of small, medium and large
/// objects, and recall; tables by class. Found boxes
/// end where their image does, and areas are those of the targets, where these say so; else the sample is
/// the image, and areas are in its pixels.
std::shared_ptr<const PredictionMetric> yolo_metric();

}  // namespace autotrain
