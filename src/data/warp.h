#pragma once

#include <optional>

#include "autotrain/recipe.h"
#include "base/random.h"
#include "data/resample.h"

namespace autotrain {

/// How the planes of a sample are moved: scaled and sheared about their middle, then shifted.
struct Warp {
  /// Of planes, in pixels from their top left corner.
  struct Point {
    double x = 0;
    double y = 0;
  };

  double scale = 1;    ///< factor of every length
  double shear_x = 0;  ///< columns by which a row is pushed right for each row that it lies below the middle
  double shear_y = 0;  ///< likewise rows of a column; the product of both is below 1
  double right = 0;    ///< pixels
  double down = 0;     ///< pixels

  /// Where a point of planes of that size comes to.
  Point moved(const Point& point, const ImageSize& size) const;

  /// Where one has come from.
  Point origin(const Point& point, const ImageSize& size) const;
};

/// Draws what the recipe asks for; a key of 0 draws nothing, and without any there is no warp.
std::optional<Warp> draw_warp(const AugmentRecipe& augment, const ImageSize& size, Random& random);

/// Moves the planes, bilinearly between pixels. What comes from outside of them is black.
void warp_planes(const Planes& planes, const Warp& warp);

/// A share in [0, 1] of two images in a blend: of the law Beta(3/2, 3/2), which is that of one coordinate of
/// a point drawn uniformly from a disc.
double draw_share(Random& random);

/// Makes of `planes` their `share` and the rest of `other`, planes of the same size.
void blend(const Planes& planes, const Planes& other, double share);

}  // namespace autotrain
