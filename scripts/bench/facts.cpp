// Says what a device is and does at most: the figures that doctor and sweep measure, and how fast batches
// reach it from pageable and from pinned memory.
#include <algorithm>
#include <cstdio>

#include "base/clock.h"
#include "measure/machine.h"
#include "programs.h"
#include "setup/assembly.h"
#include "workloads.h"

namespace autotrain::bench {
namespace {

constexpr int64_t kBatchBytes = 256 << 20;
constexpr int kTries = 10;

// Bytes a second of the fastest of some copies. On a CPU nothing is copied: then it is null.
nlohmann::ordered_json upload_rate(Device& device, bool pinned) {
  if (device.torch_device().is_cpu()) return nullptr;
  const torch::Tensor there =
      torch::empty({kBatchBytes}, torch::dtype(torch::kUInt8).device(device.torch_device()));
  torch::Tensor here = torch::randint(256, {kBatchBytes}, torch::kUInt8);
  if (pinned) here = here.pin_memory();
  double best = 0;
  for (int i = 0; i < kTries; ++i) {
    device.synchronize();
    const Stopwatch watch;
    there.copy_(here, /*non_blocking=*/pinned);
    device.synchronize();
    best = std::max(best, static_cast<double>(kBatchBytes) / watch.seconds());
  }
  return best;
}

}  // namespace

int facts(int argc, char** argv) {
  Recipe recipe = plain_recipe();
  recipe.execution.device = argument(argc, argv, "device", "auto");
  const auto device = open_run_device(recipe);
  nlohmann::ordered_json figures = to_json(measure_machine(*device));
  figures["upload"] = {{"pageable_bytes_per_second", upload_rate(*device, /*pinned=*/false)},
                       {"pinned_bytes_per_second", upload_rate(*device, /*pinned=*/true)}};
  std::printf("%s\n", figures.dump().c_str());
  return 0;
}

}  // namespace autotrain::bench
