#include "data/worker_tuner.h"

#include <algorithm>
#include <iterator>

#include "data/loading_rates.h"

namespace autotrain {
namespace {

constexpr int64_t kUpdates = 3;        // a measurement has at least so many
constexpr double kSeconds = 0.2;       // and lasts at least so long
constexpr int64_t kSettling = 2;       // updates
constexpr double kMuchWaiting = 0.02;  // of the time
constexpr double kGain = 1.03;         // in samples per second, or threads are not worth their cores
constexpr double kCrowded = 1.2;       // times as long a sample takes where threads slow each other down

}  // namespace

int64_t WorkerTuner::after_update(const Update& update) {
  if (least_ == most_) return workers_;
  if (settling_ > 0) {
    --settling_;
    return workers_;
  }
  ++updates_;
  samples_ += static_cast<double>(update.samples);
  seconds_ += update.seconds;
  wait_seconds_ += update.wait_seconds;
  if (update.load_seconds_per_sample > 0) {
    ++updates_with_loads_;
    load_seconds_ += update.load_seconds_per_sample;
  }
  if (updates_ < kUpdates || seconds_ < kSeconds) return workers_;
  trials_[workers_] = take_measured();
  const auto best = this->best();
  if (best->first == workers_ && !best->second.waiting) {
    trials_.clear();  // what was measured while it waited may not hold when it waits again
    settled_ = false;
  } else if (!settled_) {
    const int64_t next = next_to_try(best);
    settled_ = next == best->first;
    go_to(next);
  }
  return workers_;
}

WorkerTuner::Measured WorkerTuner::take_measured() {
  Measured measured{.rate = samples_ / seconds_, .waiting = wait_seconds_ > kMuchWaiting * seconds_};
  if (updates_with_loads_ > 0)
    measured.load_seconds = load_seconds_ / static_cast<double>(updates_with_loads_);
  const double at_work = std::max(seconds_ - wait_seconds_, 1e-3 * seconds_);
  measured.wanted = threads_for({samples_ / at_work, measured.load_seconds}, most_);
  updates_ = updates_with_loads_ = 0;
  samples_ = seconds_ = wait_seconds_ = load_seconds_ = 0;
  return measured;
}

// The fewest threads with which training is about as fast as it was with any number.
WorkerTuner::Trials::const_iterator WorkerTuner::best() const {
  double most = 0;
  for (const auto& [workers, measured] : trials_) most = std::max(most, measured.rate);
  return std::ranges::find_if(trials_, [&](const auto& trial) { return trial.second.rate * kGain > most; });
}

// The best number itself: there is nothing more to try. More threads are faster up to some number, and from
// there on as fast or slower, so what is still open lies next to the best one.
int64_t WorkerTuner::next_to_try(Trials::const_iterator best) const {
  const auto [workers, measured] = *best;
  if (!measured.waiting) return workers;
  const auto above = std::next(best);
  if (above == trials_.end() && workers < most_) return std::max(workers + 1, measured.wanted);
  // Beside one where the step was no longer waiting, and yet no faster, it was the step that had become
  // slower.
  const bool too_many_above =
      above != trials_.end() && (!above->second.waiting || above->second.rate * kGain < measured.rate);
  if (too_many_above && above->first > workers + 1) return (workers + above->first) / 2;
  if (best == trials_.begin()) return workers;
  const auto& [fewer, before] = *std::prev(best);
  const bool crowded = measured.load_seconds > kCrowded * before.load_seconds;
  return crowded && workers > fewer + 1 ? (fewer + workers) / 2 : workers;
}

void WorkerTuner::go_to(int64_t workers) {
  if (workers == workers_) return;
  workers_ = workers;
  settling_ = kSettling;
}

}  // namespace autotrain
