#pragma once

#include <cstdint>

#include "autotrain/amounts.h"
#include "autotrain/recipe.h"

namespace autotrain {

/// How far a run is, on every clock an interval may be counted on.
struct Progress {
  int64_t updates = 0;  ///< what the samples learned come to in updates of the first stage
  int64_t samples = 0;
  int64_t dataset_size = 1;
  double seconds = 0;
};

/// Tells when an interval has passed: at the first look after each multiple of it.
class IntervalClock {
 public:
  IntervalClock(Interval interval, const Progress& start);

  /// Whether `due` would say yes, without taking note.
  bool near(const Progress& now) const { return ticks(now) > last_ticks_; }

  /// Whether a multiple was passed since the last time it said so (or since the start).
  bool due(const Progress& now);

 private:
  int64_t ticks(const Progress& now) const;

  Interval interval_;
  int64_t last_ticks_;
};

/// When evaluations and checkpoints are due.
class Agenda {
 public:
  Agenda(const Recipe& recipe, const Progress& start)
      : evaluation_(recipe.evaluation.every, start), checkpoint_(recipe.checkpoint.every, start) {}

  /// Whether one would be due at `ahead`, without taking note.
  bool evaluation_near(const Progress& ahead) const { return evaluation_.near(ahead); }
  bool anything_near(const Progress& ahead) const {
    return evaluation_.near(ahead) || checkpoint_.near(ahead);
  }

  /// What is due now, and was not told before.
  struct Due {
    bool evaluation = false;
    bool checkpoint = false;
  };
  Due take(const Progress& now) {
    return {.evaluation = evaluation_.due(now), .checkpoint = checkpoint_.due(now)};
  }

 private:
  IntervalClock evaluation_, checkpoint_;
};

}  // namespace autotrain
