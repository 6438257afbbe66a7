#include "data/datasets.h"
#include "fuzz.h"

// The bytes as inputs and as targets, as far as a sample.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace autotrain;
  static const DatasetRow row = npy_row();
  const std::string path = fuzz::as_file(data, size).string();
  fuzz::expect_error_or_result([&] {
    const Choice choice{"npy", {{"inputs", path}, {"targets", path}}};
    const auto samples = row.make({Parameters(choice, row.spec), {}});
    const std::vector<int64_t> indices = {0, samples->size() - 1}, epochs = {0, 0};
    samples->get(indices, SampleRandom(0, indices, epochs));
  });
  return 0;
}
