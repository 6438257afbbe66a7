// One timed segment of training steps with one CPU allocator, as a JSON line. With --data-budget, the
// steps run under RLIMIT_DATA = what the process has + so many MiB, and "fits" says whether they did.
#include <c10/core/CPUAllocator.h>
#include <sys/resource.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "data/loader.h"
#include "device/caching_allocator.h"
#include "device/failure.h"
#include "device/system_memory.h"
#include "device/warm_up.h"
#include "optim/optimizer.h"
#include "optim/scaler.h"
#include "process_memory.h"
#include "programs.h"
#include "step/update_step.h"
#include "workloads.h"

namespace autotrain::bench {
namespace {

int64_t minor_faults() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

}  // namespace

int allocator_step(int argc, char** argv) {
  const std::string allocator = argument(argc, argv, "allocator", "ours");
  const std::string name = argument(argc, argv, "workload", "mlp");
  const int64_t batch_size = std::stoll(argument(argc, argv, "batch", "64"));
  const std::string precision = argument(argc, argv, "precision", "fp32");
  const double seconds = std::stod(argument(argc, argv, "seconds", "3"));
  const int64_t budget_mib = std::stoll(argument(argc, argv, "data-budget", "0"));
  const int64_t most_steps = std::stoll(argument(argc, argv, "steps", "1000000"));

  warm_up_cpu();
  CachingAllocator& ours = CachingAllocator::process_wide();
  if (allocator == "ours") c10::SetCPUAllocator(&ours);
  Workload workload = make_workload(name);
  auto optimizer = make_optimizer({}, trainable_parameters(workload.task->module()));
  GradScaler scaler({}, false, torch::kCPU);
  UpdateStep step(*workload.task, *optimizer, scaler,
                  {.precision = precision == "bf16" ? Precision::kBf16 : Precision::kFp32});
  const Stream stream(1, workload.train->size(), true);
  Loader loader(*workload.train, stream,
                endless_windows(*workload.train, stream, {batch_size, batch_size}, 0), {.prefetch = 0});
  if (budget_mib > 0) limit_data_to(budget_mib);

  nlohmann::ordered_json result = {
      {"allocator", allocator}, {"workload", name}, {"batch", batch_size}, {"precision", precision}};
  int64_t steps = 0, faults = 0;
  Stopwatch watch;
  try {
    for (int64_t i = 0; i < most_steps; ++i) {
      if (i == 1) watch.restart(), faults = minor_faults();
      if (i >= 2 && watch.seconds() >= seconds) break;
      step.accumulate(*loader.next(), i, 0);
      step.finish(1e-3).read();
      steps = i;
    }
    result["fits"] = true;
  } catch (const std::exception& error) {
    if (classify_failure(error) == Failure::kOther) throw;
    result["fits"] = false;
  }
  result["steps"] = steps;
  result["samples_per_second"] = static_cast<double>(steps * batch_size) / watch.seconds();
  result["minor_faults_per_step"] =
      static_cast<double>(minor_faults() - faults) / static_cast<double>(std::max<int64_t>(steps, 1));
  result["peak_rss_mib"] = status_kib("VmHWM") / 1024;
  result["peak_allocated_mib"] = static_cast<double>(ours.peak_allocated_bytes()) / 1048576;
  result["peak_reserved_mib"] = static_cast<double>(ours.peak_reserved_bytes()) / 1048576;
  std::printf("%s\n", result.dump().c_str());
  return 0;
}

}  // namespace autotrain::bench
