#pragma once

#include <torch/types.h>

#include <array>
#include <cstdint>
#include <vector>

namespace autotrain {

/// Pixels from one point to the next of each level of model yolo.
inline constexpr std::array<int64_t, 3> kYoloStrides = {8, 16, 32};

/// Values that the distribution of a box's edge stands on: distances of 0 to 15 strides.
inline constexpr int64_t kYoloBins = 16;

/// Columns of a point in an output of model yolo behind its logits: x, y and stride, width and height of the
/// image, all in pixels. A point is the middle of its cell.
inline constexpr int64_t kPointColumns = 5;

/// The points of all levels, [points, kPointColumns] float32 on the CPU.
/// @param grids [height, width] of each level, in cells.
torch::Tensor yolo_points(const std::vector<std::array<int64_t, 2>>& grids, int64_t height, int64_t width);

/// Which rows of targets are objects to be learned, [n, boxes] bool: not those that fill up, and no crowds,
/// which longer rows than five columns name in their sixth.
torch::Tensor is_object(const torch::Tensor& targets);

/// On a CPU, where nobody waits for it: refuses targets of classes that the model does not predict.
/// @throws Error(kBadData). @param loss that asks for them.
void check_classes_of(const torch::Tensor& targets, int64_t classes, const char* loss);

/// An output of model yolo, [n, points, 4 · kYoloBins + classes + kPointColumns], taken apart.
struct YoloOutput {
  torch::Tensor bins;     ///< [n, points, 4, kYoloBins] float32: logits of distances left, top, right, bottom
  torch::Tensor logits;   ///< [n, points, classes] float32
  torch::Tensor places;   ///< [points, 2] x, y in pixels
  torch::Tensor strides;  ///< [points, 1] in pixels
  torch::Tensor size;     ///< [2] width and height of the image in pixels

  /// @throws Error(kBadRecipe) where it is no such output, as far as its shape and, on a CPU, its strides
  /// tell. @param key of the recipe that asks for one.
  static YoloOutput of(const torch::Tensor& prediction, const char* key);

  /// The boxes' edges left, top, right, bottom in pixels: [n, points, 4].
  torch::Tensor boxes() const;
};

/// Edges [.., 4] left, top, right, bottom of boxes [.., 4] given by centre, width and height.
torch::Tensor edges_of(const torch::Tensor& centred);

/// Intersection ÷ union of boxes given by edges, [.., 4] each, of shapes that go together: [..].
torch::Tensor box_iou(const torch::Tensor& a, const torch::Tensor& b);

/// The same, less the squared distance of the centres beside the squared diagonal of the hull of both, less
/// a penalty on unlike aspect ratios: Zheng et al. 2020, equations 7 to 11. No gradient goes through the
/// penalty's weight.
torch::Tensor complete_iou(const torch::Tensor& predicted, const torch::Tensor& wanted);

/// Σ over the four edges of the cross-entropy of the two bins around the wanted distance, each weighted by
/// how near it is: Li et al. 2020, equation 6. A wanted distance outside of the bins is moved to the nearest.
/// @param bins [.., 4, kYoloBins] logits. @param distances [.., 4] in strides. @return [..]
torch::Tensor distribution_focal(const torch::Tensor& bins, const torch::Tensor& distances);

}  // namespace autotrain
