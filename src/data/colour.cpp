#include "data/colour.h"

#include <algorithm>
#include <cmath>

namespace autotrain {
namespace {

double draw_factor(double spread, Random& random) {
  if (spread == 0) return 1;
  const double least = std::max(0.0, 1 - spread);
  return least + (1 + spread - least) * random.uniform();
}

float cut(float value) {
  return std::clamp(value, 0.0f, 255.0f);
}

// ITU-R BT.601.
float luma(float red, float green, float blue) {
  return 0.299f * red + 0.587f * green + 0.114f * blue;
}

int64_t pixels_of(const Planes& planes) {
  return planes.size.height * planes.size.width;
}

// All channels lie end to end, so a step that treats them alike is one loop.
void scale_towards(const Planes& planes, float factor, float anchor) {
  const float shift = (1 - factor) * anchor;
  const int64_t count = planes.channels * pixels_of(planes);
  for (int64_t i = 0; i < count; ++i) planes.data[i] = cut(planes.data[i] * factor + shift);
}

float mean_grey(const Planes& planes) {
  const int64_t pixels = pixels_of(planes);
  const float* const p = planes.data;
  double sum = 0;
  for (int64_t i = 0; i < pixels; ++i) {
    sum += planes.channels == 3 ? luma(p[i], p[i + pixels], p[i + 2 * pixels]) : p[i];
  }
  return static_cast<float>(sum / static_cast<double>(pixels));
}

void change_saturation(const Planes& planes, float factor) {
  const int64_t pixels = pixels_of(planes);
  float *red = planes.data, *green = red + pixels, *blue = green + pixels;
  for (int64_t i = 0; i < pixels; ++i) {
    const float grey = (1 - factor) * luma(red[i], green[i], blue[i]);
    red[i] = cut(red[i] * factor + grey);
    green[i] = cut(green[i] * factor + grey);
    blue[i] = cut(blue[i] * factor + grey);
  }
}

// The hue of a colour in sixths of a turn: which channel is largest, and how the others differ (HSV).
float hue_of(float red, float green, float blue, float largest, float range) {
  if (largest == red) return (green - blue) / range + (green < blue ? 6.0f : 0.0f);
  if (largest == green) return (blue - red) / range + 2.0f;
  return (red - green) / range + 4.0f;
}

// A channel of the colour of that hue, largest value and range; the channels differ by their phase.
float channel_at(float hue, float phase, float largest, float range) {
  const float place = std::fmod(hue + phase, 6.0f);
  return largest - range * std::clamp(std::min(place, 4.0f - place), 0.0f, 1.0f);
}

void turn_hue(const Planes& planes, float turns) {
  const int64_t pixels = pixels_of(planes);
  const float sixths = 6 * (turns < 0 ? turns + 1 : turns);
  float *red = planes.data, *green = red + pixels, *blue = green + pixels;
  for (int64_t i = 0; i < pixels; ++i) {
    const float largest = std::max({red[i], green[i], blue[i]});
    const float range = largest - std::min({red[i], green[i], blue[i]});
    if (range == 0) continue;
    const float hue = hue_of(red[i], green[i], blue[i], largest, range) + sixths;
    red[i] = channel_at(hue, 5, largest, range);
    green[i] = channel_at(hue, 3, largest, range);
    blue[i] = channel_at(hue, 1, largest, range);
  }
}

}  // namespace

ColourChange draw_colour_change(const AugmentRecipe& augment, Random& random) {
  ColourChange change;
  change.brightness = draw_factor(augment.brightness, random);
  change.contrast = draw_factor(augment.contrast, random);
  change.saturation = draw_factor(augment.saturation, random);
  if (augment.hue > 0) change.hue = augment.hue * (2 * random.uniform() - 1);
  return change;
}

void change_colours(const Planes& planes, const ColourChange& change) {
  if (change.brightness != 1) scale_towards(planes, static_cast<float>(change.brightness), 0);
  if (change.contrast != 1) scale_towards(planes, static_cast<float>(change.contrast), mean_grey(planes));
  if (change.saturation != 1) change_saturation(planes, static_cast<float>(change.saturation));
  if (change.hue != 0) turn_hue(planes, static_cast<float>(change.hue));
}

Normalisation::Normalisation(const std::vector<double>& mean, const std::vector<double>& deviation) {
  for (size_t c = 0; c < mean.size(); ++c) channels_.emplace_back(mean[c], deviation[c]);
}

void Normalisation::apply(const Planes& planes) const {
  const int64_t pixels = pixels_of(planes);
  for (int64_t c = 0; c < planes.channels; ++c) {
    float* const plane = planes.row(c, 0);
    const auto [scale, shift] = channels_[static_cast<size_t>(c)];
    for (int64_t i = 0; i < pixels; ++i) plane[i] = plane[i] * scale + shift;
  }
}

void mirror(const Planes& planes) {
  const int64_t rows = planes.channels * planes.size.height;
  for (int64_t y = 0; y < rows; ++y) {
    float* const row = planes.row(0, y);
    std::reverse(row, row + planes.size.width);
  }
}

}  // namespace autotrain
