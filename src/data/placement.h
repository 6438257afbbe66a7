#pragma once

#include <span>
#include <string>

#include "autotrain/recipe.h"
#include "base/random.h"
#include "data/resample.h"

namespace autotrain {

/// Which part of an image goes where in the planes of a sample.
struct Placement {
  Region region;  ///< of the whole image, in its own pixels
  Box box;        ///< of the planes
};

/// The whole image, its aspect ratio given up.
Placement stretched(const ImageSize& image, const ImageSize& planes);

/// The largest part of the image with the box's aspect ratio. `place`: 0.5 takes it from the middle, 0 from
/// the top left, 1 from the bottom right.
Placement covering(const ImageSize& image, const Box& box, double place = 0.5);

/// The whole image at its aspect ratio, in the middle.
Placement letterboxed(const ImageSize& image, const ImageSize& planes);

/// A random part: of the image's area a share drawn from `share`, at an aspect ratio drawn
/// log-uniformly from [3/4, 4/3]; after ten draws that do not lie in the image, the largest middle part
/// within those ratios. As torchvision's RandomResizedCrop.
Region draw_crop(const ImageSize& image, const AreaShare& share, Random& random);

/// Decodes an image file and draws the placement's region into its box, values in [0, 255]; the rest of the
/// planes is left alone.
/// @param size of the file's image, as it is turned. @throws Error(kBadData) as decode_image.
void draw_image(std::span<const uint8_t> file, const std::string& where, const ImageSize& size,
                const Placement& placement, const Planes& planes, const ImageReading& reading = {});

}  // namespace autotrain
