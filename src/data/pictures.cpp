#include "data/pictures.h"

#include <png.h>

#include <algorithm>
#include <cstring>

#include "autotrain/error.h"

namespace autotrain {
namespace {

constexpr int64_t kMostSide = 256;  // larger ones are made smaller

// [n, C, H, W] as [n, 3, H, W] of float: colours, one channel as grey, of others the first three.
torch::Tensor as_colours(const torch::Tensor& images) {
  const torch::Tensor floats = images.to(torch::kFloat32);
  if (floats.size(1) == 3) return floats;
  if (floats.size(1) > 3) return floats.narrow(1, 0, 3);
  return floats.narrow(1, 0, 1).expand({-1, 3, -1, -1});
}

torch::Tensor at_readable_size(const torch::Tensor& images, int64_t least_side) {
  const int64_t side = std::max(images.size(2), images.size(3));
  if (side > kMostSide) {
    const double factor = static_cast<double>(kMostSide) / static_cast<double>(side);
    const auto scaled = [&](int64_t size) {
      return std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(size) * factor));
    };
    return at::adaptive_avg_pool2d(images, {scaled(images.size(2)), scaled(images.size(3))});
  }
  const int64_t times = (least_side + side - 1) / side;
  return images.repeat_interleave(times, 2).repeat_interleave(times, 3);
}

}  // namespace

Pictures pictures_of(const torch::Tensor& inputs, int64_t least_side) {
  const torch::Tensor colours = as_colours(inputs).nan_to_num(0, 0, 0);
  Pictures pictures{.least = colours.min().item<double>(), .greatest = colours.max().item<double>()};
  const double span = pictures.greatest > pictures.least ? pictures.greatest - pictures.least : 1;
  const torch::Tensor grey = ((colours - pictures.least) * (255 / span)).round().clamp(0, 255);
  pictures.pixels = at_readable_size(grey, least_side).round().to(torch::kUInt8);
  return pictures;
}

std::string png_of(const torch::Tensor& pixels) {
  png_image image;
  std::memset(&image, 0, sizeof image);
  image.version = PNG_IMAGE_VERSION;
  image.height = static_cast<png_uint_32>(pixels.size(0));
  image.width = static_cast<png_uint_32>(pixels.size(1));
  image.format = PNG_FORMAT_RGB;
  const void* const from = pixels.const_data_ptr<uint8_t>();
  png_alloc_size_t bytes = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::string png(bytes, '\0');
  if (png_image_write_to_memory(&image, png.data(), &bytes, 0, from, 0, nullptr) == 0)
    throw Error(ExitCode::kInternal, "sample sheet", image.message);
  png.resize(bytes);
  return png;
}

}  // namespace autotrain
