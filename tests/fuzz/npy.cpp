#include "data/datasets.h"
#include "fuzz.h"

namespace autotrain {
DatasetRow npy_row();
}

// The bytes as inputs and as targets of each kind, as far as a sample, and looked at.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace autotrain;
  static const DatasetRow row = npy_row();
  const std::string path = fuzz::as_file(data, size).string();
  const Choice choice{"npy", {{"inputs", path}, {"targets", path}}};
  const Parameters parameters(choice, row.spec);
  using Kind = TargetUse::Kind;
  for (const Kind kind : {Kind::kUnknown, Kind::kClasses, Kind::kLabels, Kind::kNumbers}) {
    fuzz::expect_error_or_result([&] {
      const DatasetRequest request{
          .parameters = parameters, .targets = {kind, 255, kind == Kind::kClasses}, .training = &parameters};
      const auto samples = row.make(request);
      const std::vector<int64_t> indices = {0, samples->size() - 1}, epochs = {0, 0};
      samples->get(indices, SampleRandom(0, indices, epochs));
      const LookOptions whole{.depth = LookDepth::kWhole};
      DataLook look;
      row.look({.made_from = request, .data = *samples, .training = samples.get(), .options = whole}, look);
    });
  }
  return 0;
}
