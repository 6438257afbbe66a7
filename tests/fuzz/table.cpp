#include <cmath>

#include "data/datasets.h"
#include "fuzz.h"

namespace {

using autotrain::Choice;

// The first byte chooses the keys.
Choice choice_of(uint8_t bits, const std::string& path) {
  const auto bit = [&](int i) { return (bits >> i & 1) != 0; };
  return {"table",
          {{"file", path},
           {"target", std::string("1")},
           {"header", bit(0)},
           {"standardize", bit(1)},
           {"missing", std::string(bit(2) ? "mean" : "zero")},
           {"separator", std::string(bit(3) ? "," : ";")},
           {"task", std::string(bit(4) ? "auto" : "regression")},
           {"split", std::string(bit(5)   ? "all"
                                 : bit(6) ? "train"
                                          : "validation")},
           {"validation_share", 0.5}}};
}

}  // namespace

// Whatever the table: an error, or numbers that are finite.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace autotrain;
  if (size == 0) return 0;
  static const DatasetRow row = table_row();
  const std::string path = fuzz::as_file(data + 1, size - 1).string();
  fuzz::expect_error_or_result([&] {
    const Choice choice = choice_of(data[0], path);
    const auto samples = row.make({Parameters(choice, row.spec), {}});
    const std::vector<int64_t> indices = {0, samples->size() - 1}, epochs = {0, 0};
    const Batch batch = samples->get(indices, SampleRandom(0, indices, epochs));
    const auto* const numbers = batch.inputs.const_data_ptr<float>();
    for (int64_t i = 0; i < batch.inputs.numel(); ++i) {
      if (!std::isfinite(numbers[i])) __builtin_trap();
    }
  });
  return 0;
}
