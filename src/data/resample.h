#pragma once

#include <cstdint>

#include "data/image_file.h"

namespace autotrain {

/// A rectangle of an image, in pixels of its edges: [top, top + height) × [left, left + width).
struct Region {
  double top = 0;
  double left = 0;
  double height = 0;
  double width = 0;
};

/// A rectangle of an image of the size `full` in the pixels of that image as it was decoded, perhaps smaller.
Region in_pixels_of(const DecodedImage& image, const Region& region, const ImageSize& full);

/// A rectangle of whole pixels.
struct Box {
  int64_t top = 0;
  int64_t left = 0;
  int64_t height = 0;
  int64_t width = 0;
};

/// Planes [channels, height, width] of float32, not owned.
struct Planes {
  float* data = nullptr;
  int64_t channels = 0;
  ImageSize size = {};

  float* row(int64_t channel, int64_t y) const { return data + (channel * size.height + y) * size.width; }
};

/// Draws `region` of an image into `box` of planes with as many channels, values in [0, 255]: bilinear, with
/// the filter widened over all pixels that become one when the image shrinks (Pillow's BILINEAR,
/// torchvision's antialias=True). Pixels of the image around the region take part in its edges,
/// but not those whose centres lie beyond the image.
/// Preconditions: the region lies in the image and is not empty, the box lies in the planes.
void resample(const DecodedImage& image, const Region& region, const Planes& planes, const Box& box);

}  // namespace autotrain
