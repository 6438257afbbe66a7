#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/enum_names.h"
#include "lr/suggestion.h"
#include "study/halving.h"

namespace autotrain {

/// How a race halves: two rates at least have their whole runs, so that statistics can compare them.
inline constexpr HalvingRules kRaceRules = {.least_survivors = 2};

/// Which rates race. All rates of a race are `optimizer.lr`, at `optimizer.reference_batch`.
struct RateGrid {
  std::vector<double> rates = {};  ///< ascending, each once; each is read back from `shortest` as it is
  std::string origin = {};         ///< where they come from: "around 0.002, which the range test suggests"
};

/// Five rates, √10 apart and rounded to three digits, and the recipe's own. They lie around what the test
/// suggests; where it is undetermined around the smaller of a quarter of the edge and a third of the valley's
/// end, of the stretches that have one; else around the recipe's own rate. A rate of the five that nearly is
/// the recipe's own gives way to it.
RateGrid rates_to_race(const LearningRateTest& test);

/// The rates that were asked for, and the recipe's own.
RateGrid rates_to_race(std::vector<double> asked, double own);

/// To so many significant digits, as a person would write it.
double rounded_rate(double rate, int digits);

/// One rate of a race.
struct Racer {
  double lr = 0;

  /// Of the figure over the seeds, at the end of each rung. NaN: the rate was not in that rung; infinite: so
  /// many of its runs failed or diverged that there is none.
  std::vector<double> medians = {};
  int64_t diverged = 0;  ///< runs
  int64_t failed = 0;    ///< runs that ended badly for another reason

  /// Whether the winner is better than this one beyond what seeds explain, by the test of `compare` at equal
  /// samples. It is known of those that came to the end. Unset: not tested, and why where more seeds than one
  /// would not have done.
  std::optional<bool> told_apart = {};
  std::string not_tested_because = {};

  /// That test finds this one better: the winner's runs were longer (stop.patience).
  bool contradicted = false;

  /// How many seeds would tell the two apart, where these do not. Unset: not known.
  std::optional<int64_t> seeds_needed = {};
};

/// What a race showed.
struct RateRace {
  std::string figure = {};
  bool lower_is_better = false;
  int64_t seeds = 0;  ///< runs of each rate
  double own_lr = 0;
  int64_t reference_batch = 0;
  std::string grid = {};            ///< as RateGrid::origin
  std::vector<double> shares = {};  ///< of a whole run, at which each rung ends
  std::vector<Racer> racers = {};   ///< by ascending rate
};

enum class RacerFate { kWon, kFinished, kLeftOut, kDiverged, kFailed };

constexpr auto enum_names(RacerFate) {
  return std::array{EnumName<RacerFate>{RacerFate::kWon, "won"},
                    EnumName<RacerFate>{RacerFate::kFinished, "finished"},
                    EnumName<RacerFate>{RacerFate::kLeftOut, "left_out"},
                    EnumName<RacerFate>{RacerFate::kDiverged, "diverged"},
                    EnumName<RacerFate>{RacerFate::kFailed, "failed"}};
}

/// At which end of the rates that were raced the winner lies: a better one may lie beyond.
enum class GridEnd { kNone, kSmallest, kLargest };

constexpr auto enum_names(GridEnd) {
  return std::array{EnumName<GridEnd>{GridEnd::kNone, "none"},
                    EnumName<GridEnd>{GridEnd::kSmallest, "smallest"},
                    EnumName<GridEnd>{GridEnd::kLargest, "largest"}};
}

/// The racers that came to the end of their runs, the best median first; of equals the recipe's own first,
/// then the smaller rate. The first one is the winner.
std::vector<size_t> finishing_order(const RateRace& race);

RacerFate fate_of(const RateRace& race, size_t racer);
GridEnd grid_end_of(const RateRace& race);

/// The rung that a racer was left in or lost in; the last one of those that finished.
size_t rung_of(const Racer& racer);

/// What `autotrain lr` found: one of the two is there.
struct LearningRateReport {
  std::string name = {};  ///< the recipe's
  std::optional<LearningRateTest> test = {};
  std::optional<RateRace> race = {};
};

}  // namespace autotrain
