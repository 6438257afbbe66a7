#pragma once

#include <span>
#include <vector>

#include "data/box_table.h"
#include "data/placement.h"
#include "data/warp.h"

namespace autotrain {

/// The boxes as they lie in planes of `size` after their image was placed there, cut at the placement's box;
/// one of which less than a quarter of its area is left is dropped.
std::vector<LabelledBox> place_boxes(std::span<const LabelledBox> boxes, const ImageSize& image,
                                     const Placement& placement, const ImageSize& size);

/// The boxes of planes of `size` after these were warped: around the corners as they lie then, cut at the
/// planes' edges and dropped likewise.
std::vector<LabelledBox> warp_boxes(std::span<const LabelledBox> boxes, const Warp& warp,
                                    const ImageSize& size);

}  // namespace autotrain
