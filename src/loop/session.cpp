#include "loop/session.h"

#include <algorithm>
#include <utility>

#include "autotrain/error.h"
#include "base/interrupt.h"

namespace autotrain {
namespace {

constexpr double kMemorySampleSeconds = 0.1;

constexpr const char *kWindow = "window", *kUpdate = "update", *kBatch = "batch", *kSeconds = "seconds",
                     *kStop = "stop", *kCheckpoint = "checkpoint", *kPasses = "passes";

}  // namespace

void Session::sample_memory() {
  last_memory_sample = steady_seconds();
  MemoryMeter& memory = bench.device->memory();
  memory.sample_outside_bytes();
  state.totals.peak_bytes = std::max(state.totals.peak_bytes, memory.peak().total_bytes());
}

Ranks::Note Session::note_of_window(double seconds) const {
  const bool signal = pending_interrupt() == Interrupt::kStop;
  return {{kWindow, state.position.windows},
          {kUpdate, state.position.updates},
          {kBatch, state.position.effective},
          {kSeconds, own_seconds()},
          {kPasses, seconds},
          {kStop, static_cast<int>(signal ? StopReason::kSignal : wish)},
          {kCheckpoint, checkpoint_requested()}};
}

StopReason Session::take(const std::vector<Ranks::Note>& notes) {
  StopReason stops = StopReason::kNone;
  for (const Ranks::Note& note : notes) {
    const auto same = [&](const char* what) { return note.at(what) == notes[0].at(what); };
    check_invariant(same(kWindow) && same(kUpdate) && same(kBatch), "all ranks are at the same window");
    const auto reason = static_cast<StopReason>(note.at(kStop).get<int>());
    if (stops == StopReason::kNone || reason == StopReason::kSignal) stops = reason;
    checkpoint_told |= note.at(kCheckpoint).get<bool>();
  }
  std::vector<double> passes;
  for (const Ranks::Note& note : notes) passes.push_back(note.at(kPasses).get<double>());
  rank_times = rank_totals.count(passes);
  told_seconds = notes[0].at(kSeconds).get<double>();
  return stops;
}

bool Session::take_checkpoint() {
  if (!bench.ranks->several()) return take_checkpoint_request();
  if (!std::exchange(checkpoint_told, false)) return false;
  take_checkpoint_request();
  return true;
}

void Session::sample_memory_sometimes() {
  if (steady_seconds() - last_memory_sample >= kMemorySampleSeconds) sample_memory();
}

}  // namespace autotrain
