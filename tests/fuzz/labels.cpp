#include "data/box_placement.h"
#include "data/yolo_labels.h"
#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace autotrain;
  const std::string text(reinterpret_cast<const char*>(data), size);
  fuzz::expect_error_or_result([&] {
    const ImageSize image{30, 40}, planes{20, 20};
    const auto longer = static_cast<LongerLines>(size % 3);
    const auto boxes = parse_labels(text, "sample 0: x", {.classes = 80, .longer_lines = longer});
    for (const LabelledBox& box : place_boxes(boxes, image, covering(image, {3, 4, 10, 12}), planes)) {
      const bool inside = box.centre_x - box.width / 2 >= 4.0 / 20 - 1e-9 && box.width > 0 &&
                          box.height > 0 && box.centre_y + box.height / 2 <= 13.0 / 20 + 1e-9 &&
                          box.category < 80;
      if (!inside) __builtin_trap();
    }
  });
  return 0;
}
