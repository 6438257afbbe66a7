#include "sweep/largest_batch.h"

#include <algorithm>

#include "base/clock.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "measure/subject.h"
#include "plan/inference_search.h"
#include "step/precision.h"
#include "sweep/sweep_columns.h"

namespace autotrain {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMostSamples = 1 << 20;  // of a batch that anybody would ask for

// The batch is dropped before the next trial begins, whatever became of this one.
struct LoadedBatch {
  LoadedBatch(Subject& of, int64_t samples) : subject(of) { subject.load(samples); }
  ~LoadedBatch() { subject.drop(); }
  LoadedBatch(const LoadedBatch&) = delete;
  LoadedBatch& operator=(const LoadedBatch&) = delete;

  Subject& subject;
};

// Seconds of the second call: the first one compiles kernels.
double timed_call(Subject& subject, int64_t batch) {
  stop_if_interrupted("sweep", "a signal stopped it; finished points are kept");
  const LoadedBatch loaded(subject, batch);
  subject.call();
  subject.device().synchronize();
  const Stopwatch watch;
  subject.call();
  subject.device().synchronize();
  const double seconds = watch.seconds();
  subject.device().memory().sample_outside_bytes();
  return seconds;
}

}  // namespace

Json measure_largest(const Recipe& recipe) {
  const auto subject = make_subject(recipe);
  Device& device = subject->device();
  const auto& multiple = recipe.execution.search.multiple_of;
  const SearchResult found = find_inference_batch(
      device,
      {.execution = recipe.execution,
       .samples = kMostSamples,
       .most = recipe.batch.limits.max_micro_batch,
       .multiple_of = multiple.value_or(preferred_multiple(subject->precision(), device)),
       .floor_bytes = device.memory().allocated_bytes()},
      [&](int64_t batch) { return timed_call(*subject, batch); });
  return to_json(
      LargestBatch{.batch = found.micro_batch,
                   .reason = found.micro_batch == kMostSamples ? SearchReason::kCap : found.reason,
                   .fill = found.fill,
                   .peak_bytes = found.peak_bytes,
                   .budget_bytes = device.budget_bytes(),
                   .samples_per_second = find_size(found.probes, found.micro_batch)->samples_per_second,
                   .trials = found.probes});
}

Json to_json(const LargestBatch& largest) {
  if (!largest.failure.empty()) return {{"failure", largest.failure}};
  Json json = {{"failure", nullptr}};
  json.update(json_of(largest_columns(), largest));
  return json;
}

LargestBatch largest_from_json(const Json& json) {
  LargestBatch largest;
  if (json.at("failure").is_string()) {
    largest.failure = json.at("failure");
    return largest;
  }
  read_record(largest_columns(), json, largest);
  return largest;
}

}  // namespace autotrain
