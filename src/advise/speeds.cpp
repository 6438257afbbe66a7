#include "advise/speeds.h"

#include <algorithm>
#include <map>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "base/clock.h"
#include "base/interrupt.h"
#include "base/text.h"
#include "device/failure.h"
#include "measure/subject.h"
#include "measure/timing.h"

namespace autotrain {
namespace {

constexpr int kLeastRounds = 3;
constexpr double kLeastTimed = 0.02;  // seconds of calls that one measurement is the mean of

double mean_call(Subject& subject) {
  const Stopwatch watch;
  int calls = 0;
  do {
    stop_if_interrupted("advise", "a signal stopped the measurement");
    subject.call();
    subject.device().synchronize();
    ++calls;
  } while (watch.seconds() < kLeastTimed);
  return watch.seconds() / calls;
}

// What a call takes, or why there is none.
struct Trial {
  double seconds = 0;
  Failure failure = Failure::kOther;
  std::string why = {};  // "": it ran
};

Trial try_call(Subject& subject, int64_t micro_batch) {
  try {
    subject.drop();
    subject.load(micro_batch);
    return {mean_call(subject)};
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    return {0, classify_failure(error), first_line(error)};
  }
}

// Of one that memory refused the larger ones go too.
void leave_out(std::vector<int64_t>& micro_batches, size_t i, const Trial& trial) {
  log::warn("advise", cat("micro-batch ", micro_batches[i], " is left out: ", trial.why));
  const auto at = micro_batches.begin() + static_cast<std::ptrdiff_t>(i);
  micro_batches.erase(at, trial.failure == Failure::kOther ? at + 1 : micro_batches.end());
}

}  // namespace

std::vector<SpeedPoint> measure_speeds(Recipe recipe, std::vector<int64_t> micro_batches, double seconds,
                                       const std::function<void(int64_t measured)>& proceed) {
  recipe.sweep.mode = SweepMode::kTraining;
  recipe.execution.lanes.reset();
  const auto subject = make_subject(recipe);
  std::map<int64_t, std::vector<double>> taken;
  int64_t measured = 0;
  const Stopwatch watch;
  for (int round = 0; round <= kLeastRounds || watch.seconds() < seconds; ++round) {
    for (size_t i = 0; i < micro_batches.size();) {
      proceed(measured++);
      const Trial trial = try_call(*subject, micro_batches[i]);
      if (!trial.why.empty()) {
        leave_out(micro_batches, i, trial);
        continue;
      }
      if (round > 0) taken[micro_batches[i]].push_back(trial.seconds);
      ++i;
    }
    if (micro_batches.empty()) break;
  }
  std::vector<SpeedPoint> points;
  for (const int64_t micro_batch : micro_batches) {
    std::vector<double>& repeats = taken[micro_batch];
    std::ranges::sort(repeats);
    const double median = quantile(repeats, 0.5);
    const MedianInterval range{repeats.front(), repeats.back()};
    points.push_back({micro_batch, median, std::ssize(repeats),
                      median_interval(repeats).value_or(range).half_width(median)});
  }
  return points;
}

}  // namespace autotrain
