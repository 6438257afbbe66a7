#include "data/image_gather.h"

#include <algorithm>

namespace autotrain {
namespace {

void gather_one(const ImageGather& g, const ImagePlace& place, float* to) {
  const uint8_t* const from = g.images + place.image * g.channels * g.height * g.width;
  // Columns [first, last) of the result have a source pixel.
  const int64_t first = std::clamp<int64_t>(-place.dx, 0, g.width);
  const int64_t last = std::clamp<int64_t>(g.width - place.dx, 0, g.width);
  for (int64_t c = 0; c < g.channels; ++c) {
    const auto [scale, shift] = g.normalisation[c];
    for (int64_t y = 0; y < g.height; ++y, to += g.width) {
      const int64_t source_y = y + place.dy;
      const bool inside = source_y >= 0 && source_y < g.height;
      const uint8_t* const row = from + c * g.channel_stride + (inside ? source_y : 0) * g.row_stride;
      const int64_t start = inside ? first : 0, end = inside ? last : 0;
      std::fill(to, to + start, shift);
      const auto copy = [&, scale = scale, shift = shift](auto step) {
        for (int64_t x = start; x < end; ++x)
          to[x] = static_cast<float>(row[(x + place.dx) * step()]) * scale + shift;
      };
      // Neighbours that are known to be such are converted several at once.
      if (g.column_stride == 1)
        copy([] { return int64_t{1}; });
      else
        copy([&] { return g.column_stride; });
      std::fill(to + end, to + g.width, shift);
      if (place.mirrored) std::reverse(to, to + g.width);
    }
  }
}

}  // namespace

void gather_images(const ImageGather& gather) {
  const int64_t image_size = gather.channels * gather.height * gather.width;
  for (int64_t i = 0; i < gather.samples; ++i) {
    gather_one(gather, gather.places[i], gather.out + i * image_size);
  }
}

}  // namespace autotrain
