#pragma once

#include <torch/types.h>

#include <string>
#include <vector>

namespace autotrain {

/// Draws the outlines of boxes into images, in a colour of their class.
/// @param images [n, 3, H, W] uint8, changed. @param targets [n, m, 5 or more]: class, centre x, y, width and
/// height as parts of the image; of class −1 there is no box.
void draw_boxes(torch::Tensor& images, const torch::Tensor& targets);

/// How many boxes of which classes a sample has, in words: "2 dress, 1 bag". @param targets [m, 5 or more].
std::string boxes_in_words(const torch::Tensor& targets, const std::vector<std::string>& classes);

}  // namespace autotrain
