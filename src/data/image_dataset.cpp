#include "data/image_dataset.h"

#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "autotrain/error.h"
#include "base/random.h"
#include "base/text.h"
#include "data/balancing.h"
#include "data/gather.h"

namespace autotrain {

namespace {

// The bytes of plain values as a tensor on a GPU, copied without waiting for it.
template <class T>
torch::Tensor bytes_on(torch::Device device, const std::vector<T>& values) {
  auto* const bytes = const_cast<T*>(values.data());
  const torch::Tensor here =
      torch::from_blob(bytes, {static_cast<int64_t>(values.size() * sizeof(T))}, torch::kUInt8);
  return here.pin_memory().to(device, /*non_blocking=*/true);
}

}  // namespace

ImageDataset::ImageDataset(Content content, AugmentRecipe augment)
    : content_(std::move(content)), augment_(augment) {
  check_invariant(content_.images.dim() == 4 && content_.images.scalar_type() == torch::kUInt8 &&
                      (content_.images.is_contiguous() ||
                       content_.images.is_contiguous(torch::MemoryFormat::ChannelsLast)),
                  "images are [N, C, H, W] bytes");
  channels_ = content_.images.size(1);
  height_ = content_.images.size(2);
  width_ = content_.images.size(3);
  for (int64_t c = 0; c < channels_; ++c) {
    const double mean = content_.mean[static_cast<size_t>(c) % content_.mean.size()];
    const double deviation = content_.deviation[static_cast<size_t>(c) % content_.deviation.size()];
    normalisation_.emplace_back(mean, deviation);
  }
  place_normalisation();
}

int64_t ImageDataset::size() const {
  return content_.images.size(0);
}

DatasetInfo ImageDataset::info() const {
  return {.kind = DatasetInfo::Kind::kImages,
          .input_shape = {channels_, height_, width_},
          .classes = content_.classes,
          .target_is_number = content_.target_is_number};
}

int64_t ImageDataset::ram_bytes() const {
  return content_.mapped ? static_cast<int64_t>(content_.images.nbytes()) : 0;
}

int64_t ImageDataset::device_bytes() const {
  return static_cast<int64_t>(content_.images.nbytes());
}

void ImageDataset::preload(const PreloadWork& work) {
  content_.images = content_.images.to(work.device, /*non_blocking=*/false, /*copy=*/true);
  content_.mapped = false;
  place_normalisation();
}

void ImageDataset::place_normalisation() {
  if (!content_.images.is_cpu()) affine_ = bytes_on(content_.images.device(), normalisation_);
}

std::vector<int64_t> ImageDataset::classes_of_samples() const {
  return classes_in(content_.labels);
}

ImagePlace ImageDataset::place(int64_t index, uint64_t key) const {
  ImagePlace place{.image = index};
  Random random(key);
  if (const int64_t padding = augment_.crop_padding; padding > 0) {
    place.dy = static_cast<int32_t>(random.below(2 * padding + 1) - padding);
    place.dx = static_cast<int32_t>(random.below(2 * padding + 1) - padding);
  }
  if (augment_.flip) place.mirrored = (random.next() >> 63) != 0;
  return place;
}

void ImageDataset::gather(const std::vector<ImagePlace>& places, const torch::Tensor& out) const {
  ImageGather gather{.images = content_.images.const_data_ptr<uint8_t>(),
                     .places = places.data(),
                     .normalisation = normalisation_.data(),
                     .out = out.mutable_data_ptr<float>(),
                     .samples = out.size(0),
                     .channels = channels_,
                     .height = height_,
                     .width = width_,
                     .channel_stride = content_.images.stride(1),
                     .row_stride = content_.images.stride(2),
                     .column_stride = content_.images.stride(3)};
  if (out.is_cpu()) return gather_images(gather);
  const c10::DeviceGuard guard(out.device());
  const torch::Tensor there = bytes_on(out.device(), places);
  gather.places = static_cast<const ImagePlace*>(there.const_data_ptr());
  gather.normalisation = static_cast<const Affine*>(affine_.const_data_ptr());
  const c10::impl::VirtualGuardImpl device(out.device().type());
  gather_images_cuda(gather, device.getStream(out.device()).native_handle());
}

Batch ImageDataset::get(c10::ArrayRef<int64_t> indices, const SampleRandom& random) const {
  const auto n = static_cast<int64_t>(indices.size());
  const bool augmented = augment_.flip || augment_.crop_padding > 0;
  std::vector<ImagePlace> places(indices.size());
  for (size_t i = 0; i < indices.size(); ++i) {
    places[i] = augmented ? place(indices[i], random.key(i)) : ImagePlace{.image = indices[i]};
  }
  Batch batch{torch::empty({n, channels_, height_, width_}, content_.images.options().dtype(torch::kFloat32)),
              content_.labels.defined() ? gather_rows(content_.labels, indices) : torch::Tensor(), n};
  gather(places, batch.inputs);
  return batch;
}

}  // namespace autotrain
