#include "checkpoint/safetensors.h"

#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace autotrain;
  fuzz::expect_error_or_result([&] { read_safetensors(fuzz::as_file(data, size)); });
  return 0;
}
