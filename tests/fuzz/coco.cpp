#include "data/coco_json.h"
#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace autotrain;
  fuzz::expect_error_or_result([&] {
    const CocoJson json = read_coco_json(fuzz::as_file(data, size));
    for (const CocoJson::Image& each : json.images)
      if (each.name.empty()) __builtin_trap();
    for (size_t i = 0; i < json.annotations.size(); ++i)
      if (json.annotations[i].number != static_cast<int64_t>(i) + 1) __builtin_trap();
  });
  return 0;
}
