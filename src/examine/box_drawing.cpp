#include "examine/box_drawing.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "base/text.h"

namespace autotrain {
namespace {

using Colour = std::array<int, 3>;

// Okabe and Ito's, which colour-blind readers tell apart too.
constexpr std::array<Colour, 7> kColours = {{{230, 159, 0},
                                             {86, 180, 233},
                                             {0, 158, 115},
                                             {240, 228, 66},
                                             {0, 114, 178},
                                             {213, 94, 0},
                                             {204, 121, 167}}};

// The pixels from the first to the last that a stretch of an image's side covers.
struct Stretch {
  int64_t first, last;
};

Stretch stretch_of(double centre, double length, int64_t side) {
  const auto pixel = [&](double part) {
    return std::clamp(std::llround(part * static_cast<double>(side)), 0LL, static_cast<long long>(side) - 1);
  };
  return {pixel(centre - length / 2), pixel(centre + length / 2)};
}

void fill(const torch::Tensor& image, Stretch rows, Stretch columns, const Colour& colour) {
  for (size_t channel = 0; channel < colour.size(); ++channel) {
    image[static_cast<int64_t>(channel)]
        .slice(0, rows.first, rows.last + 1)
        .slice(1, columns.first, columns.last + 1)
        .fill_(colour[channel]);
  }
}

void draw_outline(const torch::Tensor& image, Stretch rows, Stretch columns, const Colour& colour) {
  for (const int64_t row : {rows.first, rows.last}) fill(image, {row, row}, columns, colour);
  for (const int64_t column : {columns.first, columns.last}) fill(image, rows, {column, column}, colour);
}

}  // namespace

void draw_boxes(torch::Tensor& images, const torch::Tensor& targets) {
  const torch::Tensor boxes = targets.to(torch::kFloat64).contiguous();
  const auto rows = boxes.accessor<double, 3>();
  for (int64_t i = 0; i < boxes.size(0); ++i) {
    for (int64_t j = 0; j < boxes.size(1); ++j) {
      const auto box = rows[i][j];
      if (box[0] < 0) continue;
      draw_outline(images[i], stretch_of(box[2], box[4], images.size(2)),
                   stretch_of(box[1], box[3], images.size(3)),
                   kColours[static_cast<size_t>(box[0]) % kColours.size()]);
    }
  }
}

std::string boxes_in_words(const torch::Tensor& targets, const std::vector<std::string>& classes) {
  std::map<int64_t, int64_t> counts;
  for (int64_t j = 0; j < targets.size(0); ++j) {
    const auto number = static_cast<int64_t>(targets[j][0].item<double>());
    if (number >= 0) ++counts[number];
  }
  std::vector<std::string> words;
  for (const auto& [number, count] : counts) {
    const bool named = number < std::ssize(classes);
    words.push_back(cat(count, " ", named ? classes[static_cast<size_t>(number)] : cat("of class ", number)));
  }
  return words.empty() ? "no box" : join(words, ", ");
}

}  // namespace autotrain
