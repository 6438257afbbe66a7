#include "sweep/end_to_end.h"

#include <algorithm>

#include "base/clock.h"
#include "base/interrupt.h"
#include "base/text.h"
#include "base/units.h"
#include "measure/subject.h"
#include "measure/timing.h"
#include "sweep/sweep_columns.h"
#include "sweep/sweep_point.h"

namespace autotrain {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kWarmUp = 0.1, kByItself = 0.2;  // of the time for the whole
constexpr int64_t kLeastBatches = 3, kMostBatches = 2000;
constexpr double kClearlySlower = 0.8;  // of the rate of the slowest stage

constexpr std::array kStages = {Stage::kLoading, Stage::kCopying, Stage::kForward, Stage::kOutput};

// Does `work` for so long, and at least so often. @return seconds of one, their mean.
template <class Work>
double seconds_each(double for_seconds, int64_t at_least, Work work) {
  const Stopwatch watch;
  int64_t done = 0;
  while (done < at_least || (watch.seconds() < for_seconds && done < kMostBatches)) {
    stop_if_interrupted("sweep", "a signal stopped it; finished points are kept");
    work();
    ++done;
  }
  return watch.seconds() / static_cast<double>(done);
}

// The whole, as `predict` runs it: each batch in turn, while the next ones are loaded.
void measure_whole(InferenceSubject& subject, int64_t batch, double seconds, EndToEnd& e) {
  const auto loader = subject.open_loader(batch);
  double waiting = 0;
  const auto pass = [&] {
    const Stopwatch watch;
    const Batch loaded = *loader->next();
    waiting += watch.seconds();
    subject.take(loaded);
    subject.call();
    subject.output();
  };
  // What was loaded while kernels were compiled is used up before anything counts.
  seconds_each(kWarmUp * seconds, kLeastBatches + 2 * e.prefetch_batches, pass);
  waiting = 0;
  int64_t passes = 0;
  const double each = seconds_each(seconds, kLeastBatches, [&] { pass(), ++passes; });
  e.samples_per_second = static_cast<double>(batch) / each;
  e.waiting_share = waiting / static_cast<double>(passes) / each;
  loader->wait_until_full();
  subject.device().memory().sample_outside_bytes();
  e.peak_bytes = subject.device().memory().peak().total_bytes();
}

double loading_seconds(InferenceSubject& subject, int64_t batch, double seconds) {
  const auto loader = subject.open_loader(batch);
  loader->next();  // the threads are at work from here on
  return seconds_each(seconds, kLeastBatches, [&] { loader->next(); });
}

// Each stage with nothing beside it; the last batch of the loader serves for all but loading.
void measure_stages(InferenceSubject& subject, int64_t batch, double seconds, EndToEnd& e) {
  const auto rate = [&](double each) { return static_cast<double>(batch) / each; };
  e.loading = rate(loading_seconds(subject, batch, seconds));
  const Batch loaded = *subject.open_loader(batch)->next();
  const auto waiting_for_device = [&](auto work) {
    return rate(seconds_each(seconds, kLeastBatches, [&] {
      work();
      subject.device().synchronize();
    }));
  };
  e.copying = waiting_for_device([&] { subject.take(loaded); });
  e.forward = waiting_for_device([&] { subject.call(); });
  e.output = waiting_for_device([&] { subject.output(); });
}

const char* words_of_stage(Stage stage) {
  switch (stage) {
    case Stage::kLoading: return "loading";
    case Stage::kCopying: return "copying";
    case Stage::kForward: return "the forward pass";
    case Stage::kOutput: break;
  }
  return "the output";
}

// Counts and bytes are the most of any round, other figures their median.
Json middle_of(const Column<EndToEnd>& column, const std::vector<EndToEnd>& rounds) {
  std::vector<Json> values;
  for (const EndToEnd& round : rounds) values.push_back(column.value(round));
  if (values[0].is_number_integer()) return *std::ranges::max_element(values);
  std::vector<double> numbers;
  for (const Json& value : values) numbers.push_back(number_of(value));
  return median_of(std::move(numbers));
}

}  // namespace

double EndToEnd::rate_of(Stage stage) const {
  switch (stage) {
    case Stage::kLoading: return loading;
    case Stage::kCopying: return copying;
    case Stage::kForward: return forward;
    case Stage::kOutput: break;
  }
  return output;
}

std::pair<Stage, Stage> EndToEnd::slowest() const {
  auto stages = kStages;
  std::ranges::stable_sort(stages, {}, [this](Stage stage) { return rate_of(stage); });
  return {stages[0], stages[1]};
}

bool EndToEnd::stages_compete() const {
  return samples_per_second < kClearlySlower * rate_of(slowest().first);
}

std::string bound_in_words(const EndToEnd& e) {
  const auto [first, second] = e.slowest();
  const auto named = [&](Stage stage) -> std::string {
    if (stage != Stage::kLoading || e.workers == 0) return words_of_stage(stage);
    return cat(words_of_stage(stage), e.workers == 1 ? " by 1 thread" : cat(" by ", e.workers, " threads"));
  };
  const std::string first_rate = format_rate(e.rate_of(first)), second_rate = format_rate(e.rate_of(second));
  if (!e.stages_compete()) {
    return cat(named(first), " bounds it, at ", first_rate, " samples/s by itself; next comes ",
               named(second), " at ", second_rate);
  }
  return cat(named(first), " and ", named(second), " take time from each other, at ", first_rate, " and ",
             second_rate, " samples/s each by itself");
}

Json measure_end_to_end(const Recipe& recipe, int64_t batch) {
  const auto subject = make_inference_subject(recipe);
  return of_batch(batch, [&] {
    subject->device().memory().reset_peak();
    EndToEnd e{.workers = subject->loading().workers, .prefetch_batches = subject->loading().prefetch};
    measure_whole(*subject, batch, recipe.sweep.max_seconds, e);
    measure_stages(*subject, batch, kByItself * recipe.sweep.max_seconds, e);
    return json_of(end_to_end_columns(), e);
  });
}

EndToEnd summarise_end_to_end(const std::vector<StudyResult>& rounds) {
  std::vector<EndToEnd> all;
  for (const StudyResult& round : rounds) {
    if (round.failed()) return {.failure = first_line(round.failure)};
    read_record(end_to_end_columns(), round.value, all.emplace_back());
  }
  Json middle = Json::object();
  for (const Column<EndToEnd>& column : end_to_end_columns()) {
    if (column.read) middle[column.name] = middle_of(column, all);
  }
  EndToEnd merged;
  read_record(end_to_end_columns(), middle, merged);
  const auto [least, most] = std::ranges::minmax(all, {}, &EndToEnd::samples_per_second);
  merged.drift.reset();
  if (all.size() > 1) merged.drift = most.samples_per_second / least.samples_per_second - 1;
  return merged;
}

}  // namespace autotrain
