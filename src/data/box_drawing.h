#pragma once

#include <torch/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace autotrain {

/// How outlines are drawn.
struct BoxStyle {
  int64_t width = 1;    ///< pixels of the line, odd
  bool dashed = false;  ///< in black and white, which is seen on any ground; else in the colour of the class
  bool numbered = false;  ///< 1 is the first box of an image, on the colour of its class
};

/// Draws the outlines of boxes into images.
/// @param images [n, 3, H, W] uint8, changed. @param targets [n, m, 5 or more]: class, centre x, y, width and
/// height as parts of the image; of class −1 there is no box.
void draw_boxes(torch::Tensor& images, const torch::Tensor& targets, const BoxStyle& style = {});

/// How many boxes of which classes a sample has, in words: "2 dress, 1 bag". @param targets [m, 5 or more].
std::string boxes_in_words(const torch::Tensor& targets, const std::vector<std::string>& classes);

}  // namespace autotrain
