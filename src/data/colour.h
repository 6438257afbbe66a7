#pragma once

#include <vector>

#include "autotrain/recipe.h"
#include "base/random.h"
#include "data/affine.h"
#include "data/resample.h"

namespace autotrain {

/// How one sample's colours change, in this order. Factors of 1 and a turn of 0 change nothing.
struct ColourChange {
  double brightness = 1;  ///< factor of every pixel
  double contrast = 1;    ///< factor of the distance to the mean grey of the image
  double saturation = 1;  ///< factor of the distance to the grey of the pixel
  double hue = 0;         ///< full turns
};

/// Draws what the recipe asks for; a key of 0 draws nothing.
ColourChange draw_colour_change(const AugmentRecipe& augment, Random& random);

/// Changes values in [0, 255] in place, each step cut to that range, with the meaning of torchvision's
/// ColorJitter. Saturation and hue need three channels.
void change_colours(const Planes& planes, const ColourChange& change);

/// From values in [0, 255] to what a model takes.
class Normalisation {
 public:
  /// A value x of channel c becomes (x ÷ 255 − mean[c]) ÷ deviation[c].
  Normalisation(const std::vector<double>& mean, const std::vector<double>& deviation);

  void apply(const Planes& planes) const;

 private:
  std::vector<Affine> channels_;
};

/// Mirrors the planes left to right.
void mirror(const Planes& planes);

}  // namespace autotrain
