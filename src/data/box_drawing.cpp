#include "data/box_drawing.h"

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

constexpr Colour kInk = {0, 0, 0}, kPaper = {255, 255, 255};
constexpr int64_t kDash = 4;  // pixels

// From the first pixel to the last, along rows or columns; dashes by turns black and white.
void draw_dashes(const torch::Tensor& image, Stretch rows, Stretch columns) {
  const bool down = rows.last > rows.first;
  Stretch& along = down ? rows : columns;
  const Stretch whole = along;
  for (int64_t at = whole.first; at <= whole.last; at += kDash) {
    along = {at, std::min(at + kDash - 1, whole.last)};
    fill(image, rows, columns, (at - whole.first) / kDash % 2 == 0 ? kPaper : kInk);
  }
}

// Around a middle line, as far as the image goes.
Stretch widened(int64_t middle, int64_t width, int64_t side) {
  return {std::max<int64_t>(0, middle - width / 2), std::min(side - 1, middle + width / 2)};
}

void draw_outline(const torch::Tensor& image, Stretch rows, Stretch columns, const Colour& colour,
                  const BoxStyle& style) {
  const auto draw = [&](Stretch down, Stretch across) {
    style.dashed ? draw_dashes(image, down, across) : fill(image, down, across, colour);
  };
  for (const int64_t row : {rows.first, rows.last}) draw(widened(row, style.width, image.size(1)), columns);
  for (const int64_t column : {columns.first, columns.last})
    draw(rows, widened(column, style.width, image.size(2)));
}

// Digits of 3 × 5 dots, row by row.
constexpr std::array<const char*, 10> kDigits = {
    "111101101101111", "010110010010111", "111001111100111", "111001111001111", "101101111001001",
    "111100111001111", "111100111101111", "111001001001001", "111101111101111", "111101111001111"};
constexpr int64_t kDot = 2;  // pixels

// In black on a ground of this colour, from a place on down and to the right, moved so that it is whole.
void draw_number(const torch::Tensor& image, int64_t number, int64_t row, int64_t column,
                 const Colour& ground) {
  const std::string digits = std::to_string(number);
  const int64_t high = 7 * kDot, wide = (4 * std::ssize(digits) + 1) * kDot;
  row = std::clamp<int64_t>(row, 0, std::max<int64_t>(0, image.size(1) - high));
  column = std::clamp<int64_t>(column, 0, std::max<int64_t>(0, image.size(2) - wide));
  fill(image, {row, row + high - 1}, {column, column + wide - 1}, ground);
  for (int64_t i = 0; i < std::ssize(digits) * 15; ++i) {
    const int64_t digit = i / 15, dot = i % 15;
    if (kDigits[static_cast<size_t>(digits[static_cast<size_t>(digit)] - '0')][dot] != '1') continue;
    const int64_t top = row + (1 + dot / 3) * kDot, left = column + (1 + 4 * digit + dot % 3) * kDot;
    fill(image, {top, top + kDot - 1}, {left, left + kDot - 1}, kInk);
  }
}

}  // namespace

void draw_boxes(torch::Tensor& images, const torch::Tensor& targets, const BoxStyle& style) {
  const torch::Tensor boxes = targets.to(torch::kFloat64).contiguous();
  const auto rows = boxes.accessor<double, 3>();
  for (int64_t i = 0; i < boxes.size(0); ++i) {
    for (int64_t j = 0; j < boxes.size(1); ++j) {
      const auto box = rows[i][j];
      if (box[0] < 0) continue;
      const Stretch down = stretch_of(box[2], box[4], images.size(2)),
                    across = stretch_of(box[1], box[3], images.size(3));
      const Colour& colour = kColours[static_cast<size_t>(box[0]) % kColours.size()];
      draw_outline(images[i], down, across, colour, style);
      if (style.numbered) draw_number(images[i], j + 1, down.first, across.first, colour);
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
