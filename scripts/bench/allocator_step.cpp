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

// Counts what the kernel did for the process so far: its own time, most of which goes into mapping pages.
struct KernelWork {
  int64_t minor_faults = 0;
  double system_seconds = 0, user_seconds = 0;
};

KernelWork kernel_work() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return {usage.ru_minflt, seconds(usage.ru_stime), seconds(usage.ru_utime)};
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
  auto optimizer = make_optimizer({}, {trainable_parameters(workload.task->module())});
  GradScaler scaler({}, false, torch::kCPU);
  UpdateStep step(*workload.task, *optimizer, scaler,
                  {.precision = precision == "bf16" ? Precision::kBf16 : Precision::kFp32});
  const Stream stream(1, workload.train->size(), true);
  Loader loader(*workload.train, stream,
                endless_windows(*workload.train, stream, {batch_size, batch_size}, 0), {.prefetch = 0});
  const int64_t idle = ours.counts().allocated_bytes;
  if (budget_mib > 0) limit_data_to(budget_mib);

  nlohmann::ordered_json result = {
      {"allocator", allocator}, {"workload", name}, {"batch", batch_size}, {"precision", precision}};
  int64_t steps = 0;
  KernelWork before;
  Stopwatch watch;
  try {
    for (int64_t i = 0; i < most_steps; ++i) {
      if (i == 1) watch.restart(), before = kernel_work();
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
  const KernelWork after = kernel_work();
  const double user = after.user_seconds - before.user_seconds;
  const double system = after.system_seconds - before.system_seconds;
  result["minor_faults_per_step"] = static_cast<double>(after.minor_faults - before.minor_faults) /
                                    static_cast<double>(std::max<int64_t>(steps, 1));
  result["kernel_share"] = system / std::max(1e-9, user + system);  // of the CPU time
  result["peak_rss_mib"] = status_kib("VmHWM") / 1024;
  result["peak_allocated_mib"] = static_cast<double>(ours.counts().peak_allocated_bytes) / 1048576;
  result["peak_above_idle_mib"] = static_cast<double>(ours.counts().peak_allocated_bytes - idle) / 1048576;
  result["peak_reserved_mib"] = static_cast<double>(ours.counts().peak_reserved_bytes) / 1048576;
  std::printf("%s\n", result.dump().c_str());
  return 0;
}

}  // namespace autotrain::bench
