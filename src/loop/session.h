#pragma once

#include <string>

#include "autotrain/recipe.h"
#include "autotrain/report.h"
#include "base/clock.h"
#include "base/interrupt.h"
#include "base/units.h"
#include "loop/agenda.h"
#include "loop/rank_totals.h"
#include "setup/assembly.h"
#include "setup/batch_stages.h"
#include "state/deputy.h"
#include "state/followers.h"
#include "state/run_folder.h"
#include "state/run_state.h"

namespace autotrain {

/// A run from its start, or from where it was resumed, to its end in one process: all parts of the
/// loop share it. All that it refers to outlives it.
class Session {
 public:
  const Recipe& recipe;

  /// Changes only when recoveries made a smaller micro-batch, or computing again, part of it.
  BatchPlan& plan;
  Workbench& bench;
  RunState& state;
  RunFolder* folder = nullptr;     ///< null: nothing is written
  const Deputy* deputy = nullptr;  ///< of the first rank, on another one; null where there is nothing to save
  const Followers& followers;
  RankTotals& rank_totals;
  const double start = steady_seconds();
  const double seconds_before = state.totals.seconds;  ///< of earlier sessions

  /// Seconds of the run, over all its sessions. With several ranks, what the first one told at the last
  /// window: what depends on time is decided by one clock.
  double seconds() const { return bench.ranks->several() ? told_seconds : own_seconds(); }
  double own_seconds() const { return seconds_before + steady_seconds() - start; }

  /// Whether this rank is to end, to be told to the others.
  StopReason wish = StopReason::kNone;

  /// What this rank tells the others when the passes of a window are over. @param seconds that they took; on
  /// a GPU, which is behind, those of the last update whose figures were read.
  Ranks::Note note_of_window(double seconds) const;

  /// Takes what all ranks told. @return why all of them stop now, if they do.
  StopReason take(const std::vector<Ranks::Note>& notes);

  /// Whether a signal asks for a checkpoint; with several ranks, whether one of them told so: what is done
  /// between two windows is the same on all.
  bool checkpoint_asked() const { return bench.ranks->several() ? checkpoint_told : checkpoint_requested(); }

  /// The same, and takes note.
  bool take_checkpoint();

  const BatchStages stages = stages_of(recipe, bench.stream.size(), plan.effective_batch);

  /// Samples of applied updates, which schedules, stages and stops go by.
  int64_t learned() const { return state.position.learned; }

  /// What they come to in updates of the first stage. Where the batch stays, the last update may be smaller.
  int64_t updates_of(int64_t samples) const {
    return stages.change() ? samples / stages.first() : ceil_div(samples, stages.first());
  }

  Progress progress() const {
    return {.updates = updates_of(learned()),
            .samples = state.position.cursor,
            .dataset_size = bench.stream.size(),
            .seconds = seconds()};
  }

  /// Samples consumed ÷ samples in the data set.
  double epoch() const {
    return static_cast<double>(state.position.cursor) / static_cast<double>(bench.stream.size());
  }

  /// Tells all followers of something that happened now.
  void note(EventKind event, const std::string& detail) const {
    followers.tell(&RunObserver::on_event,
                   EventRecord{.update = state.position.updates, .event = event, .detail = detail});
  }

  /// Takes the memory that is in use into the run's peak.
  void sample_memory();

  /// The same, if a tenth of a second has passed: reading the process's memory takes microseconds, and
  /// updates may take less than a hundred.
  void sample_memory_sometimes();

  double last_memory_sample = 0;
  double told_seconds = seconds_before;
  RankTimes rank_times = {};  ///< of the last window
  bool checkpoint_told = false;
  double device_seconds = 0;  ///< that the passes of the last update that was read took on the device
};

}  // namespace autotrain
