#include "fuzz.h"
#include "recipe/load.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace autotrain;
  static const Catalog catalog = fuzz::catalog();
  const std::string text(reinterpret_cast<const char*>(data), size);
  fuzz::expect_error_or_result([&] {
    load_recipe_text("data: {train: {dataset: one}}\nmodel: {name: one}\nstop: {updates: 1}\n", "fuzz.yaml",
                     catalog, {.overrides = {text}});
  });
  return 0;
}
