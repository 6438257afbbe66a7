#include "data/warp.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

namespace autotrain {
namespace {

Warp::Point middle_of(const ImageSize& size) {
  return {static_cast<double>(size.width) / 2, static_cast<double>(size.height) / 2};
}

double within(double most, Random& random) {
  return most * (2 * random.uniform() - 1);
}

// Four pixels around a point, and their parts in it.
class Bilinear {
 public:
  Bilinear(const Warp::Point& at, const ImageSize& size) : size_(size) {
    const double x = at.x - 0.5, y = at.y - 0.5;  // pixels' values stand in their middles
    left_ = static_cast<int64_t>(std::floor(x)), top_ = static_cast<int64_t>(std::floor(y));
    across_ = static_cast<float>(x - static_cast<double>(left_));
    along_ = static_cast<float>(y - static_cast<double>(top_));
  }

  bool outside() const { return left_ < -1 || top_ < -1 || left_ >= size_.width || top_ >= size_.height; }

  float of(const float* plane) const {
    const float above = (1 - across_) * value(plane, top_, left_) + across_ * value(plane, top_, left_ + 1);
    const float below =
        (1 - across_) * value(plane, top_ + 1, left_) + across_ * value(plane, top_ + 1, left_ + 1);
    return (1 - along_) * above + along_ * below;
  }

 private:
  float value(const float* plane, int64_t y, int64_t x) const {
    if (x < 0 || y < 0 || x >= size_.width || y >= size_.height) return 0;
    return plane[y * size_.width + x];
  }

  ImageSize size_;
  int64_t left_, top_;
  float across_, along_;
};

}  // namespace

Warp::Point Warp::moved(const Point& point, const ImageSize& size) const {
  const Point middle = middle_of(size);
  const double x = point.x - middle.x, y = point.y - middle.y;
  return {middle.x + right + scale * (x + shear_x * y), middle.y + down + scale * (y + shear_y * x)};
}

Warp::Point Warp::origin(const Point& point, const ImageSize& size) const {
  const Point middle = middle_of(size);
  const double x = point.x - middle.x - right, y = point.y - middle.y - down;
  const double divisor = scale * (1 - shear_x * shear_y);
  return {middle.x + (x - shear_x * y) / divisor, middle.y + (y - shear_y * x) / divisor};
}

std::optional<Warp> draw_warp(const AugmentRecipe& augment, const ImageSize& size, Random& random) {
  if (augment.scale == 0 && augment.translate == 0 && augment.shear == 0) return std::nullopt;
  Warp warp;
  if (augment.scale > 0) warp.scale = 1 + within(augment.scale, random);
  if (augment.shear > 0) {
    const double most = augment.shear * std::numbers::pi / 180;
    warp.shear_x = std::tan(within(most, random));
    warp.shear_y = std::tan(within(most, random));
  }
  if (augment.translate > 0) {
    warp.right = within(augment.translate, random) * static_cast<double>(size.width);
    warp.down = within(augment.translate, random) * static_cast<double>(size.height);
  }
  return warp;
}

void warp_planes(const Planes& planes, const Warp& warp) {
  const ImageSize& size = planes.size;
  const int64_t pixels = size.height * size.width;
  const std::vector<float> before(planes.data, planes.data + planes.channels * pixels);
  for (int64_t y = 0; y < size.height; ++y) {
    for (int64_t x = 0; x < size.width; ++x) {
      const Warp::Point at{static_cast<double>(x) + 0.5, static_cast<double>(y) + 0.5};
      const Bilinear pixel(warp.origin(at, size), size);
      for (int64_t channel = 0; channel < planes.channels; ++channel)
        planes.row(channel, y)[x] = pixel.outside() ? 0.0f : pixel.of(before.data() + channel * pixels);
    }
  }
}

double draw_share(Random& random) {
  const double radius = std::sqrt(random.uniform()), angle = 2 * std::numbers::pi * random.uniform();
  return 0.5 + 0.5 * radius * std::cos(angle);
}

void blend(const Planes& planes, const Planes& other, double share) {
  const auto ours = static_cast<float>(share), theirs = static_cast<float>(1 - share);
  const int64_t values = planes.channels * planes.size.height * planes.size.width;
  for (int64_t i = 0; i < values; ++i) planes.data[i] = ours * planes.data[i] + theirs * other.data[i];
}

}  // namespace autotrain
