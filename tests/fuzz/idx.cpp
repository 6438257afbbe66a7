#include "data/idx.h"

#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace autotrain;
  const auto path = fuzz::as_file(data, size);
  fuzz::expect_error_or_result([&] { read_idx(path, 3); });
  fuzz::expect_error_or_result([&] { read_idx(path, 1); });
  return 0;
}
