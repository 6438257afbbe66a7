#include "measure/bandwidth.h"

#include <ATen/Parallel.h>
#include <torch/types.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "base/clock.h"
#include "base/units.h"
#include "measure/random_numbers.h"
#include "measure/timing.h"

// Several versions in one program, the widest that the processor has chosen at its start: half the width
// reads a first-level cache at half the speed. Under the thread sanitizer one, since it would watch what
// chooses, which runs before it does.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
#define AUTOTRAIN_FOR_EACH_WIDTH __attribute__((target_clones("avx512f", "avx2", "default"), optimize("O3")))
#else
#define AUTOTRAIN_FOR_EACH_WIDTH
#endif

namespace autotrain {
namespace {

constexpr PassRule kPasses;
constexpr int64_t kQueuedBytes = kGiB, kMostQueued = 64;
constexpr int64_t kBlock = 128;  // floats: enough independent sums to hide the latency of an addition

// Sums all values, `repeats` times over.
AUTOTRAIN_FOR_EACH_WIDTH
float sum_of(const float* values, int64_t count, int64_t repeats) {
  float sums[kBlock] = {};
  for (int64_t r = 0; r < repeats; ++r) {
    for (int64_t i = 0; i + kBlock <= count; i += kBlock) {
      for (int64_t j = 0; j < kBlock; ++j) sums[j] += values[i + j];
    }
  }
  float all = 0;
  for (const float sum : sums) all += sum;
  return all;
}

std::atomic<float> seen = 0;  // what is summed must be of use to somebody

// Seconds of `repeats` readings by all threads.
double pass_seconds(const std::vector<torch::Tensor>& parts, int64_t repeats) {
  const Stopwatch watch;
  at::parallel_for(0, static_cast<int64_t>(parts.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const torch::Tensor& part = parts[static_cast<size_t>(i)];
      seen = sum_of(part.const_data_ptr<float>(), part.numel(), repeats);
    }
  });
  return watch.seconds();
}

double cpu_rate(int64_t bytes, double seconds) {
  const int64_t threads = at::get_num_threads();
  const int64_t floats = std::max(round_up(bytes / threads / 4, kBlock), kBlock);
  std::vector<torch::Tensor> parts;
  for (int64_t i = 0; i < threads; ++i) parts.push_back(torch::ones({floats}));
  const auto time_pass = [&](int64_t repeats) { return pass_seconds(parts, repeats); };
  return static_cast<double>(threads * floats * 4) / seconds_of_repeat(time_pass, {.seconds = seconds});
}

// Several readings are queued at once where one would take no longer than its launch.
double gpu_rate(const Device& device, int64_t bytes, double seconds) {
  const torch::Tensor values = random_numbers(device, torch::kFloat32, {std::max<int64_t>(bytes / 4, 1)});
  const int64_t repeats =
      std::clamp<int64_t>(kQueuedBytes / static_cast<int64_t>(values.nbytes()), 1, kMostQueued);
  double best = 0;
  const Stopwatch all;
  for (int i = 0; i <= kPasses.most && (i < kPasses.least || all.seconds() < seconds); ++i) {
    device.synchronize();
    const Stopwatch watch;
    for (int64_t r = 0; r < repeats; ++r) values.sum();
    device.synchronize();
    best =
        std::max(best, static_cast<double>(repeats) * static_cast<double>(values.nbytes()) / watch.seconds());
  }
  return best;
}

}  // namespace

double read_bytes_per_second(const Device& device, int64_t working_set_bytes, double seconds) {
  return device.torch_device().is_cpu() ? cpu_rate(working_set_bytes, seconds)
                                        : gpu_rate(device, working_set_bytes, seconds);
}

}  // namespace autotrain
