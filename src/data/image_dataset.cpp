#include "data/image_dataset.h"

#include <algorithm>

#include "autotrain/error.h"
#include "base/random.h"
#include "base/text.h"
#include "data/gather.h"

namespace autotrain {

// Where an image lands: shifted by (dy, dx), pixels outside are zero, then mirrored or not.
struct ImageDataset::Placement {
  int64_t dy = 0;
  int64_t dx = 0;
  bool mirrored = false;
};

ImageDataset::ImageDataset(Content content, AugmentRecipe augment)
    : content_(std::move(content)), augment_(augment) {
  check_invariant(content_.images.dim() == 4 && content_.images.scalar_type() == torch::kUInt8 &&
                      content_.images.is_contiguous(),
                  "images are [N, C, H, W] bytes");
  channels_ = content_.images.size(1);
  height_ = content_.images.size(2);
  width_ = content_.images.size(3);
  for (int64_t c = 0; c < channels_; ++c) {
    const double mean = content_.mean[static_cast<size_t>(c) % content_.mean.size()];
    const double deviation = content_.deviation[static_cast<size_t>(c) % content_.deviation.size()];
    normalisation_.emplace_back(mean, deviation);
  }
}

int64_t ImageDataset::size() const {
  return content_.images.size(0);
}

DatasetInfo ImageDataset::info() const {
  return {.kind = DatasetInfo::Kind::kImages,
          .input_shape = {channels_, height_, width_},
          .classes = content_.classes};
}

ImageDataset::Placement ImageDataset::place(uint64_t key) const {
  Placement placement;
  Random random(key);
  if (augment_.crop_padding > 0) {
    placement.dy = random.below(2 * augment_.crop_padding + 1) - augment_.crop_padding;
    placement.dx = random.below(2 * augment_.crop_padding + 1) - augment_.crop_padding;
  }
  if (augment_.flip) placement.mirrored = (random.next() >> 63) != 0;
  return placement;
}

void ImageDataset::copy_image(const uint8_t* from, float* to, const Placement& placement) const {
  // Columns [first, last) of the result have a source pixel; the rest is black before normalisation.
  const int64_t first = std::clamp<int64_t>(-placement.dx, 0, width_);
  const int64_t last = std::clamp<int64_t>(width_ - placement.dx, 0, width_);
  for (int64_t c = 0; c < channels_; ++c) {
    const auto [scale, shift] = normalisation_[static_cast<size_t>(c)];
    for (int64_t y = 0; y < height_; ++y, to += width_) {
      const int64_t source_y = y + placement.dy;
      const bool inside = source_y >= 0 && source_y < height_;
      const uint8_t* const row = from + (c * height_ + (inside ? source_y : 0)) * width_;
      const int64_t start = inside ? first : 0, end = inside ? last : 0;
      std::fill(to, to + start, shift);
      for (int64_t x = start; x < end; ++x) to[x] = static_cast<float>(row[x + placement.dx]) * scale + shift;
      std::fill(to + end, to + width_, shift);
      if (placement.mirrored) std::reverse(to, to + width_);
    }
  }
}

Batch ImageDataset::get(c10::ArrayRef<int64_t> indices, const SampleRandom& random) const {
  const auto n = static_cast<int64_t>(indices.size());
  Batch batch{torch::empty({n, channels_, height_, width_}, torch::kFloat32),
              content_.labels.defined() ? gather_rows(content_.labels, indices) : torch::Tensor(), n};
  const int64_t image_size = channels_ * height_ * width_;
  const auto* const images = content_.images.const_data_ptr<uint8_t>();
  auto* const out = batch.inputs.mutable_data_ptr<float>();
  const bool augmented = augment_.flip || augment_.crop_padding > 0;
  for (size_t i = 0; i < indices.size(); ++i) {
    const Placement placement = augmented ? place(random.key(i)) : Placement{};
    copy_image(images + indices[i] * image_size, out + static_cast<int64_t>(i) * image_size, placement);
  }
  return batch;
}

}  // namespace autotrain
