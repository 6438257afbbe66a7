#pragma once

#include <vector>

#include "autotrain/data.h"
#include "autotrain/recipe.h"
#include "data/colour.h"

namespace autotrain {

/// Images held as bytes; a batch is gathered, cropped, flipped and normalised in one pass over it.
class ImageDataset final : public Dataset {
 public:
  struct Content {
    torch::Tensor images;  ///< [N, C, H, W] uint8, contiguous, on the CPU
    torch::Tensor labels;  ///< [N] int64, [N, …] float32, or undefined
    int64_t classes = 0;   ///< as in DatasetInfo
    /// Per channel; a pixel x in [0, 255] becomes (x ÷ 255 − mean) ÷ deviation.
    std::vector<double> mean = {0};
    std::vector<double> deviation = {1};
  };

  /// `augment` applies to every batch; pass {} for evaluation.
  ImageDataset(Content content, AugmentRecipe augment);

  int64_t size() const override;

  /// inputs: [n, C, H, W] float32. targets: the labels' rows.
  Batch get(c10::ArrayRef<int64_t> indices, const SampleRandom& random) const override;
  DatasetInfo info() const override;

 private:
  struct Placement;
  Placement place(uint64_t key) const;
  void copy_image(const uint8_t* from, float* to, const Placement& placement) const;

  Content content_;
  AugmentRecipe augment_;
  int64_t channels_, height_, width_;
  std::vector<Affine> normalisation_;  // per channel
};

}  // namespace autotrain
