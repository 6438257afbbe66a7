#include "data/box_placement.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace autotrain {
namespace {

constexpr double kLeastPartLeft = 0.25;  // of a box's area; less shows too little of the object

// An extent along one axis, in pixels of the planes.
struct Extent {
  double begin;
  double end;
  double length() const { return std::max(0.0, end - begin); }
};

// Returns where a length along an image's side lands when the part [from, from + part) becomes
// [to, to + pixels).
Extent placed(double centre, double length, int64_t side, double from, double part, int64_t to,
              int64_t pixels) {
  const double scale = static_cast<double>(pixels) / part;
  const double begin = ((centre - length / 2) * static_cast<double>(side) - from) * scale;
  return {static_cast<double>(to) + begin,
          static_cast<double>(to) + begin + length * static_cast<double>(side) * scale};
}

Extent clipped(const Extent& extent, int64_t begin, int64_t pixels) {
  return {std::max(extent.begin, static_cast<double>(begin)),
          std::min(extent.end, static_cast<double>(begin + pixels))};
}

// The part of a box that lies in `at`, of planes of `size`; nothing where too little of it does.
std::optional<LabelledBox> cut_box(LabelledBox box, const Extent& rows, const Extent& columns, const Box& at,
                                   const ImageSize& size) {
  const Extent y = clipped(rows, at.top, at.height), x = clipped(columns, at.left, at.width);
  // A box whose centre is a corner of its image has exactly a quarter there, but for rounding.
  constexpr double kRounding = 1 - 1e-9;
  if (y.length() * x.length() < kRounding * kLeastPartLeft * rows.length() * columns.length())
    return std::nullopt;
  const auto height = static_cast<double>(size.height), width = static_cast<double>(size.width);
  box.centre_x = (x.begin + x.end) / 2 / width, box.width = x.length() / width;
  box.centre_y = (y.begin + y.end) / 2 / height, box.height = y.length() / height;
  return box;
}

}  // namespace

std::vector<LabelledBox> place_boxes(std::span<const LabelledBox> boxes, const ImageSize& image,
                                     const Placement& placement, const ImageSize& size) {
  const auto& [region, target] = placement;
  std::vector<LabelledBox> left;
  for (const LabelledBox& box : boxes) {
    const Extent rows =
        placed(box.centre_y, box.height, image.height, region.top, region.height, target.top, target.height);
    const Extent columns =
        placed(box.centre_x, box.width, image.width, region.left, region.width, target.left, target.width);
    if (const auto cut = cut_box(box, rows, columns, target, size)) left.push_back(*cut);
  }
  return left;
}

std::vector<LabelledBox> warp_boxes(std::span<const LabelledBox> boxes, const Warp& warp,
                                    const ImageSize& size) {
  const auto height = static_cast<double>(size.height), width = static_cast<double>(size.width);
  std::vector<LabelledBox> left;
  for (const LabelledBox& box : boxes) {
    const Warp::Point middle = warp.moved({box.centre_x * width, box.centre_y * height}, size);
    const double across = box.width * width / 2, along = box.height * height / 2;
    const double wide = warp.scale * (across + std::abs(warp.shear_x) * along);
    const double high = warp.scale * (along + std::abs(warp.shear_y) * across);
    LabelledBox moved = box;
    moved.area *= warp.scale * warp.scale * (1 - warp.shear_x * warp.shear_y);
    const auto cut = cut_box(moved, {middle.y - high, middle.y + high}, {middle.x - wide, middle.x + wide},
                             {0, 0, size.height, size.width}, size);
    if (cut) left.push_back(*cut);
  }
  return left;
}

}  // namespace autotrain
