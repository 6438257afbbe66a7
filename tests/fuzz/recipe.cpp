#include "fuzz.h"
#include "recipe/load.h"
#include "recipe/writer.h"

// A recipe that is accepted is written, read again, and is the same.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace autotrain;
  static const Catalog catalog = fuzz::catalog();
  const std::string text(reinterpret_cast<const char*>(data), size);
  fuzz::expect_error_or_result([&] {
    const Recipe recipe = load_recipe_text(text, "fuzz.yaml", catalog);
    if (!(load_recipe_text(write_recipe(recipe, catalog), "written.yaml", catalog) == recipe))
      __builtin_trap();
  });
  return 0;
}
