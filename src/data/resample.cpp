#include "data/resample.h"

#include <algorithm>
#include <cmath>

namespace autotrain {
namespace {

// Pixels of a row or column.
struct Pixels {
  int64_t first;
  int64_t end;
};

// Those whose centres lie in the image; one at least.
Pixels shown(int64_t size, double before, double behind) {
  const int64_t first = before > 0.5 && size > 1 ? 1 : 0;
  return {first, behind > 0.5 ? std::max(size - 1, first + 1) : size};
}

// Which pixels of a row or column make each pixel of the result, and by how much.
class Taps {
 public:
  // Result pixels [0, count) over [start, start + length) of a row, made of its pixels `of`.
  Taps(double start, double length, Pixels of, int64_t count) {
    const double step = length / static_cast<double>(count);
    const double reach = std::max(1.0, step);
    for (int64_t i = 0; i < count; ++i) {
      const double centre = start + (static_cast<double>(i) + 0.5) * step;
      const int64_t first =
          std::clamp<int64_t>(std::llround(std::floor(centre - reach + 0.5)), of.first, of.end - 1);
      const int64_t last =
          std::clamp<int64_t>(std::llround(std::floor(centre + reach + 0.5)), first + 1, of.end);
      add(first, last, centre, reach);
    }
  }

  struct Tap {
    int64_t first;  // pixel
    int64_t count;
    size_t weights;  // index of its first weight
  };
  const Tap& operator[](int64_t i) const { return taps_[static_cast<size_t>(i)]; }
  const float* weights(const Tap& tap) const { return weights_.data() + tap.weights; }
  int64_t first_pixel() const { return taps_.front().first; }
  int64_t end_pixel() const { return taps_.back().first + taps_.back().count; }

 private:
  // A triangle over the pixels' centres, scaled to a sum of one.
  void add(int64_t first, int64_t last, double centre, double reach) {
    const size_t start = weights_.size();
    double sum = 0;
    for (int64_t x = first; x < last; ++x) {
      const double weight = 1 - std::abs(static_cast<double>(x) + 0.5 - centre) / reach;
      weights_.push_back(static_cast<float>(std::max(0.0, weight)));
      sum += std::max(0.0, weight);
    }
    for (size_t i = start; i < weights_.size(); ++i) weights_[i] = static_cast<float>(weights_[i] / sum);
    taps_.push_back({first, last - first, start});
  }

  std::vector<Tap> taps_;
  std::vector<float> weights_;
};

// One row of the result before its columns are drawn together: all channels beside each other, as in the
// image. The columns outside [first, end) are not needed.
void blend_rows(const DecodedImage& image, const Taps& rows, int64_t y, int64_t first, int64_t end,
                float* out) {
  const Taps::Tap& tap = rows[y];
  const int64_t begin = first * image.channels, count = (end - first) * image.channels;
  std::fill(out, out + count, 0.0f);
  for (int64_t k = 0; k < tap.count; ++k) {
    const uint8_t* const row =
        image.pixels.data() + (tap.first + k) * image.size.width * image.channels + begin;
    const float weight = rows.weights(tap)[k];
    for (int64_t i = 0; i < count; ++i) out[i] += weight * static_cast<float>(row[i]);
  }
}

// To a whole number: samples can then be held as bytes. @param value not negative.
float rounded(float value) {
  return static_cast<float>(static_cast<int32_t>(value + 0.5f));  // NOLINT(bugprone-incorrect-roundings)
}

template <int64_t kChannels>
void blend_columns(const float* row, const Taps& columns, int64_t first, const Planes& planes, const Box& box,
                   int64_t y) {
  for (int64_t x = 0; x < box.width; ++x) {
    const Taps::Tap& tap = columns[x];
    const float* const weights = columns.weights(tap);
    const float* from = row + (tap.first - first) * kChannels;
    float sums[kChannels] = {};
    for (int64_t k = 0; k < tap.count; ++k, from += kChannels) {
      for (int64_t c = 0; c < kChannels; ++c) sums[c] += weights[k] * from[c];
    }
    for (int64_t c = 0; c < kChannels; ++c) planes.row(c, box.top + y)[box.left + x] = rounded(sums[c]);
  }
}

}  // namespace

Region in_pixels_of(const DecodedImage& image, const Region& region, const ImageSize& full) {
  const Overhang& over = image.overhang;
  const double height = static_cast<double>(image.size.height) - over.top - over.bottom;
  const double width = static_cast<double>(image.size.width) - over.left - over.right;
  const double vertical = height / static_cast<double>(full.height);
  const double horizontal = width / static_cast<double>(full.width);
  return {over.top + region.top * vertical, over.left + region.left * horizontal, region.height * vertical,
          region.width * horizontal};
}

void resample(const DecodedImage& image, const Region& region, const Planes& planes, const Box& box) {
  // Rows first: that loop runs along contiguous memory, and leaves only the result's rows to the other.
  const Overhang& over = image.overhang;
  const Taps rows(region.top, region.height, shown(image.size.height, over.top, over.bottom), box.height);
  const Taps columns(region.left, region.width, shown(image.size.width, over.left, over.right), box.width);
  const int64_t first = columns.first_pixel(), end = columns.end_pixel();
  std::vector<float> row(static_cast<size_t>((end - first) * image.channels));
  for (int64_t y = 0; y < box.height; ++y) {
    blend_rows(image, rows, y, first, end, row.data());
    if (image.channels == 3) {
      blend_columns<3>(row.data(), columns, first, planes, box, y);
    } else {
      blend_columns<1>(row.data(), columns, first, planes, box, y);
    }
  }
}

}  // namespace autotrain
