#include "fuzz.h"
#include "recipe/load.h"
#include "recipe/writer.h"

// A recipe that is accepted is written, and what was written reads as the same again.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace autotrain;
  static const Catalog catalog = fuzz::catalog();
  const std::string text(reinterpret_cast<const char*>(data), size);
  fuzz::expect_error_or_result([&] {
    const std::string written = write_recipe(load_recipe_text(text, "fuzz.yaml", catalog), catalog);
    if (write_recipe(load_recipe_text(written, "written.yaml", catalog), catalog) != written)
      __builtin_trap();
  });
  return 0;
}
