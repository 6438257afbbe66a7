#include "data/text_look.h"
#include "data/token_file.h"
#include "fuzz.h"

// The bytes as a file of tokens of either width, and as text.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace autotrain;
  const std::filesystem::path path = fuzz::as_file(data, size);
  for (const int64_t bytes : {2, 4}) {
    fuzz::expect_error_or_result([&] {
      const TokenFile file{path, {data, size}, bytes, 300};
      looks_swapped(file);
      check_token_file(file);
    });
  }
  fuzz::expect_error_or_result([&] {
    const MappedFile file(path);
    DataLook look;
    look_at_text_file(file, LookDepth::kWhole, look);
  });
  return 0;
}
