#include "sweep/serving_point.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "base/clock.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "device/cores.h"
#include "measure/timing.h"
#include "recipe/recipe_enums.h"
#include "sweep/server.h"
#include "sweep/sweep_point.h"

namespace autotrain {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kFewestBatches = 5, kMostBatchesOfASize = 500;

std::vector<int64_t> sizes_up_to(int64_t most) {
  std::vector<int64_t> sizes;
  for (int64_t size = 1; size < most; size *= 2) sizes.push_back(size);
  sizes.push_back(most);
  return sizes;
}

// The recipe with the threads of one of so many servers.
Recipe with_share_of_threads(Recipe recipe, int64_t servers) {
  if (servers == 1) return recipe;
  const int64_t threads = recipe.execution.threads.value_or(usable_cores().count);
  recipe.execution.threads = std::max<int64_t>(1, threads / servers);
  return recipe;
}

ServedBatch pass_alone(InferenceSubject& subject, int64_t first, int64_t samples) {
  stop_if_interrupted("sweep", "a signal stopped it; finished points are kept");
  ServedBatch times{.taken = steady_seconds()};
  const Batch read = subject.read(first, samples);
  times.loaded = steady_seconds();
  compute_batch(subject, read, steady_seconds, times);
  return times;
}

double median_stage(const std::vector<ServedBatch>& batches, double ServedBatch::*from,
                    double ServedBatch::*to) {
  std::vector<double> seconds;
  for (const ServedBatch& batch : batches) seconds.push_back(batch.*to - batch.*from);
  return median_of(std::move(seconds));
}

Json times_of_size(InferenceSubject& subject, int64_t samples, double for_seconds) {
  pass_alone(subject, 0, samples);  // compiles kernels
  std::vector<ServedBatch> batches;
  int64_t first = samples;
  for (const Stopwatch watch; batches.size() < kFewestBatches ||
                              (watch.seconds() < for_seconds && batches.size() < kMostBatchesOfASize);
       first += samples) {
    batches.push_back(pass_alone(subject, first, samples));
  }
  using B = ServedBatch;
  return {{"samples", samples},
          {"batches", batches.size()},
          {"loading_seconds", median_stage(batches, &B::taken, &B::loaded)},
          {"copying_seconds", median_stage(batches, &B::begun, &B::copied)},
          {"forward_seconds", median_stage(batches, &B::copied, &B::computed)},
          {"output_seconds", median_stage(batches, &B::computed, &B::done)}};
}

// Sizes that may come, since one that is met for the first time has its kernels compiled: the powers of two,
// then the others, as far as the time goes.
void meet_sizes(InferenceSubject& subject, int64_t most, double seconds) {
  const Stopwatch watch;
  std::vector<int64_t> sizes = sizes_up_to(most);
  for (int64_t samples = 1; samples < most; ++samples) {
    if ((samples & (samples - 1)) != 0) sizes.push_back(samples);
  }
  for (const int64_t samples : sizes) {
    pass_alone(subject, 0, samples);
    if (watch.seconds() > seconds) break;
  }
  subject.device().synchronize();
}

int64_t peak_of(InferenceSubject& subject) {
  subject.device().memory().sample_outside_bytes();
  return subject.device().memory().peak().total_bytes();
}

}  // namespace

Json measure_service_times(const Recipe& recipe, int64_t most, int64_t servers) {
  const auto subject = make_inference_subject(with_share_of_threads(recipe, servers));
  const std::vector<int64_t> sizes = sizes_up_to(most);
  const double seconds = recipe.sweep.max_seconds / static_cast<double>(sizes.size());
  Json rows = Json::array();
  for (const int64_t size : sizes)
    rows.push_back(of_batch(size, [&] { return times_of_size(*subject, size, seconds); }));
  const Device& device = subject->device();
  return {{"precision", to_string(subject->precision())},
          {"machine",
           {{"name", device.name()}, {"software", device.software()}, {"threads", at::get_num_threads()}}},
          {"times", std::move(rows)}};
}

Json measure_serving(const Recipe& recipe, const Serving& serving, const std::vector<double>& arrivals,
                     size_t warm_up) {
  const Recipe shared = with_share_of_threads(recipe, serving.servers);
  RequestQueue queue(arrivals, serving.batching(), serving.servers);
  const auto with_subject = [&](const auto& work) {
    const auto subject = make_inference_subject(shared);
    of_batch(serving.most, [&] { work(*subject); });
    queue.add_peak_bytes(peak_of(*subject));
  };
  const auto serve_with = [&](int64_t threads) {
    with_subject([&](InferenceSubject& subject) {
      serve_by_threads(subject, queue, threads, serving.load_ahead,
                       [&] { meet_sizes(subject, serving.most, recipe.sweep.max_seconds); });
    });
  };
  if (serving.processes) {
    serve_by_processes(queue, serving.servers, [&] { serve_with(1); });
  } else {
    serve_with(serving.servers);
  }
  Json round = round_of(queue.arrivals(), queue.served(), warm_up);
  round["peak_bytes"] = queue.peak_bytes();
  return round;
}

}  // namespace autotrain
