#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/placement.h"

namespace autotrain {

/// An object in an image. Lengths are parts of the image's width or height, in [0, 1].
struct LabelledBox {
  int64_t category = 0;
  double centre_x = 0;
  double centre_y = 0;
  double width = 0;
  double height = 0;
};

/// The boxes of a label file in YOLO's format: a line "class cx cy w h" for each; empty lines are skipped.
/// @param where names the file in errors, to which the line's number is added.
/// @throws Error(kBadData) for a line that is not five numbers, a class that is not below `classes`, or a
/// length out of range.
std::vector<LabelledBox> parse_labels(std::string_view text, const std::string& where, int64_t classes);

/// The boxes as they lie in planes of `size` after their image was placed there, cut at the placement's box;
/// one of which less than a quarter of its area is left is dropped.
std::vector<LabelledBox> place_boxes(const std::vector<LabelledBox>& boxes, const ImageSize& image,
                                     const Placement& placement, const ImageSize& size);

}  // namespace autotrain
