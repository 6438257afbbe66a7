#include "setup/first_samples.h"

#include <algorithm>

#include "autotrain/log.h"
#include "base/text.h"
#include "data/loader.h"
#include "device/failure.h"

namespace autotrain {
namespace {

// Small images are run sixteen at a time, because for fewer some kernels are others than in training. Batch
// normalisation needs more than one sample.
constexpr int64_t kFewest = 2, kMost = 16;
constexpr int64_t kManyNumbers = 1 << 20;

}  // namespace

std::optional<Batch> first_samples(Device& device, const Dataset& train) {
  const int64_t size = train.size();
  const auto load = [&](int64_t count) {
    Loader loader(train, Stream(0, size, /*shuffle=*/false),
                  repeated({consecutive(0, std::min(count, size))}), {.workers = 0, .prefetch = 0});
    return *loader.next();
  };
  try {
    const Batch few = load(kFewest);
    const int64_t numbers = std::max<int64_t>(1, few.inputs.numel() / few.samples);
    const int64_t count = std::clamp(kManyNumbers / numbers, kFewest, kMost);
    return device.upload(count > kFewest ? load(count) : few);
  } catch (const std::exception& error) {
    log::debug("trainer", cat("no samples to choose by: ", first_line(error)));
    return std::nullopt;
  }
}

}  // namespace autotrain
