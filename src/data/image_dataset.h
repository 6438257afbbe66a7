#pragma once

#include <vector>

#include "autotrain/data.h"
#include "autotrain/recipe.h"
#include "data/affine.h"
#include "data/balance.h"
#include "data/image_gather.h"
#include "data/preload.h"

namespace autotrain {

/// Images held as bytes, in main memory or a GPU's; a batch is gathered, cropped, mirrored and normalised in
/// one pass over it, where the images are.
class ImageDataset final : public Dataset, public Preloadable, public Classified {
 public:
  struct Content {
    torch::Tensor images;           ///< [N, C, H, W] uint8, contiguous, or so with the channels last
    torch::Tensor labels;           ///< [N] int64, [N, …] float32, on the CPU; or undefined
    bool mapped = false;            ///< the images are part of a file, read when they are used
    int64_t classes = 0;            ///< as in DatasetInfo
    bool target_is_number = false;  ///< as in DatasetInfo
    /// Per channel; a pixel x in [0, 255] becomes (x ÷ 255 − mean) ÷ deviation.
    std::vector<double> mean = {0};
    std::vector<double> deviation = {1};
  };

  /// `augment` applies to every batch; pass {} for evaluation.
  ImageDataset(Content content, AugmentRecipe augment);

  int64_t size() const override;

  /// inputs: [n, C, H, W] float32, on the images' device. targets: the labels' rows, on the CPU.
  Batch get(c10::ArrayRef<int64_t> indices, const SampleRandom& random) const override;
  DatasetInfo info() const override;
  bool on_device() const override { return !content_.images.is_cpu(); }

  /// Per channel, or one number for all: a pixel x in [0, 255] becomes (x ÷ 255 − mean) ÷ deviation.
  const std::vector<double>& mean() const { return content_.mean; }
  const std::vector<double>& deviation() const { return content_.deviation; }

  const torch::Tensor& labels() const { return content_.labels; }  ///< as in Content

  int64_t ram_bytes() const override;
  int64_t device_bytes() const override;
  void preload(const PreloadWork& work) override;
  std::vector<int64_t> classes_of_samples() const override;

 private:
  void place_normalisation();
  ImagePlace place(int64_t index, uint64_t key) const;
  void gather(const std::vector<ImagePlace>& places, const torch::Tensor& out) const;

  Content content_;
  AugmentRecipe augment_;
  int64_t channels_, height_, width_;
  std::vector<Affine> normalisation_;  // per channel
  torch::Tensor affine_;               // its bytes on a GPU, where the images are
};

}  // namespace autotrain
