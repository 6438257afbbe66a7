#include "data/placement.h"

#include <array>

#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace autotrain;
  const std::span<const uint8_t> file(data, size);
  fuzz::expect_error_or_result([&] {
    const ImageSize stated = read_image_size(file, "sample 0: x");
    // A byte of the middle also says how small the image is wanted.
    const int64_t part = file[size / 2] % 4;
    const DecodedImage image =
        decode_image(file, "sample 0: x", part == 0 ? kFullSize : ImageSize{stated.height * part / 4, 1});
    const auto bytes = static_cast<size_t>(image.size.height * image.size.width * image.channels);
    std::array<float, 3 * 5 * 7> planes{};
    Random random(size);
    const Placement crop{draw_crop(stated, {0.001, 1}, random), {1, 2, 4, 5}};
    draw_image(file, "sample 0: x", stated, crop, {planes.data(), 3, {5, 7}});
    if (!(image.full_size == stated) || image.pixels.size() != bytes) __builtin_trap();
  });
  return 0;
}
