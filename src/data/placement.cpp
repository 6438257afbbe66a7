#include "data/placement.h"

#include <algorithm>
#include <cmath>

namespace autotrain {
namespace {

constexpr double kNarrowest = 3.0 / 4, kWidest = 4.0 / 3;  // width ÷ height of a random crop

Region whole(const ImageSize& image) {
  return {0, 0, static_cast<double>(image.height), static_cast<double>(image.width)};
}

// A region of that size; `place` 0 at the top left, 1 at the bottom right.
Region placed(const ImageSize& image, double height, double width, double place) {
  return {(static_cast<double>(image.height) - height) * place,
          (static_cast<double>(image.width) - width) * place, height, width};
}

// The largest region with an aspect ratio within these.
Region largest_region(const ImageSize& image, double narrowest, double widest, double place) {
  const auto height = static_cast<double>(image.height), width = static_cast<double>(image.width);
  const double aspect = std::clamp(width / height, narrowest, widest);
  return placed(image, std::min(height, width / aspect), std::min(width, height * aspect), place);
}

// How large the whole image must be decoded for the region to have the box's pixels.
ImageSize least_size(const ImageSize& image, const Placement& placement) {
  const auto least = [](int64_t pixels, int64_t whole_side, double part) {
    return static_cast<int64_t>(std::ceil(static_cast<double>(pixels * whole_side) / part));
  };
  return {least(placement.box.height, image.height, placement.region.height),
          least(placement.box.width, image.width, placement.region.width)};
}

}  // namespace

Placement stretched(const ImageSize& image, const ImageSize& planes) {
  return {whole(image), {0, 0, planes.height, planes.width}};
}

Placement covering(const ImageSize& image, const Box& box, double place) {
  const double aspect = static_cast<double>(box.width) / static_cast<double>(box.height);
  return {largest_region(image, aspect, aspect, place), box};
}

Placement letterboxed(const ImageSize& image, const ImageSize& planes) {
  const double scale = std::min(static_cast<double>(planes.height) / static_cast<double>(image.height),
                                static_cast<double>(planes.width) / static_cast<double>(image.width));
  const auto side = [scale](int64_t pixels, int64_t most) {
    return std::clamp<int64_t>(std::llround(static_cast<double>(pixels) * scale), 1, most);
  };
  const int64_t height = side(image.height, planes.height), width = side(image.width, planes.width);
  return {whole(image), {(planes.height - height) / 2, (planes.width - width) / 2, height, width}};
}

Region draw_crop(const ImageSize& image, const AreaShare& share, Random& random) {
  const auto height = static_cast<double>(image.height), width = static_cast<double>(image.width);
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double area = height * width * (share.least + (share.most - share.least) * random.uniform());
    const double aspect = kNarrowest * std::pow(kWidest / kNarrowest, random.uniform());
    const double crop_width = std::max(1.0, std::sqrt(area * aspect));
    const double crop_height = std::max(1.0, std::sqrt(area / aspect));
    if (crop_width > width || crop_height > height) continue;
    const double top = (height - crop_height) * random.uniform();
    return {top, (width - crop_width) * random.uniform(), crop_height, crop_width};
  }
  return largest_region(image, kNarrowest, kWidest, 0.5);
}

void draw_image(std::span<const uint8_t> file, const std::string& where, const ImageSize& size,
                const Placement& placement, const Planes& planes, const ImageReading& reading) {
  const DecodedImage image =
      with_channels(decode_image(file, where, least_size(size, placement), reading), planes.channels);
  resample(image, in_pixels_of(image, placement.region, size), planes, placement.box);
}

}  // namespace autotrain
