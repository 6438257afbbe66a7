#include <cmath>

#include "data/datasets.h"
#include "data/table_survey.h"
#include "fuzz.h"

namespace autotrain {
DatasetRow table_row();
}

namespace {

using autotrain::Choice;
using autotrain::MissingWords;

// The first two bytes choose the keys.
Choice choice_of(int bits, const std::string& path) {
  const auto bit = [&](int i) { return (bits >> i & 1) != 0; };
  return {"table",
          {{"file", path},
           {"target", std::string("1")},
           {"header", bit(0)},
           {"standardize", bit(1)},
           {"missing", std::string(bit(2) ? "mean" : "zero")},
           {"separator", std::string(bit(3) ? "auto" : ";")},
           {"decimal", std::string(bit(7)   ? "auto"
                                   : bit(8) ? "comma"
                                            : "point")},
           {"bad_cells", std::string(bit(9) ? "fail" : "missing")},
           {"missing_words", bit(10) ? std::vector<std::string>{"?"} : MissingWords::usual()},
           {"task", std::string(bit(4) ? "auto" : "regression")},
           {"split", std::string(bit(5)   ? "all"
                                 : bit(6) ? "train"
                                          : "validation")},
           {"validation_share", 0.5}}};
}

}  // namespace

// Whatever the table: an error, or numbers that are finite, and a look at them.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace autotrain;
  if (size < 2) return 0;
  static const DatasetRow row = table_row();
  const std::string path = fuzz::as_file(data + 2, size - 2).string();
  fuzz::expect_error_or_result([&] {
    const Choice choice = choice_of(data[0] | data[1] << 8, path);
    const Parameters parameters(choice, row.spec);
    const DatasetRequest request{.parameters = parameters,
                                 .targets = {.kind = static_cast<TargetUse::Kind>(data[1] >> 4 & 3)}};
    const auto samples = row.make(request);
    const std::vector<int64_t> indices = {0, samples->size() - 1}, epochs = {0, 0};
    const Batch batch = samples->get(indices, SampleRandom(0, indices, epochs));
    const auto* const numbers = batch.inputs.const_data_ptr<float>();
    for (int64_t i = 0; i < batch.inputs.numel(); ++i) {
      if (!std::isfinite(numbers[i])) __builtin_trap();
    }
    DataLook look;
    row.look({.made_from = request,
              .data = *samples,
              .training = nullptr,
              .options = {.depth = LookDepth::kWhole}},
             look);
  });
  return 0;
}
