#include "plan/search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "autotrain/error.h"
#include "plan/size_grid.h"

namespace autotrain {
namespace {

constexpr int64_t kFirstSize = 16;
constexpr double kLargestGrowth = 16;
constexpr double kEdgeShare = 0.05;   // a pivot keeps this share of the bracket on either side
constexpr double kAim = 0.85;         // where in the band to aim; the grid's size is mostly below
constexpr double kWorthALook = 1.25;  // above a failure, sizes this much larger may be tried
constexpr int64_t kMostLooks = 2;     // this often

// The bracket that the history leaves: the largest size that fitted and the smallest larger one that did not.
struct Bracket {
  const ProbeRecord* largest_fit = nullptr;
  const ProbeRecord* next_failure = nullptr;  // above largest_fit, or any when nothing fitted
  bool closed() const { return largest_fit != nullptr && next_failure != nullptr; }
  int64_t width() const { return next_failure->micro_batch - largest_fit->micro_batch; }
};

// The trial of the largest size among those that `wanted` accepts; null when there is none.
template <class Wanted>
const ProbeRecord* largest_where(const std::vector<ProbeRecord>& history, Wanted wanted) {
  const ProbeRecord* largest = nullptr;
  for (const ProbeRecord& probe : history) {
    if (wanted(probe) && (largest == nullptr || probe.micro_batch > largest->micro_batch)) largest = &probe;
  }
  return largest;
}

Bracket bracket_of(const std::vector<ProbeRecord>& history) {
  Bracket bracket;
  bracket.largest_fit = largest_where(history, [](const ProbeRecord& probe) { return probe.fits(); });
  const int64_t fitted = bracket.largest_fit ? bracket.largest_fit->micro_batch : 0;
  for (const ProbeRecord& probe : history) {
    if (probe.fits() || probe.micro_batch <= fitted) continue;
    const bool nearer =
        bracket.next_failure == nullptr || probe.micro_batch < bracket.next_failure->micro_batch;
    if (nearer) bracket.next_failure = &probe;
  }
  return bracket;
}

// Whether the last trial left more than half of the bracket that there was before it.
bool hardly_narrowed(const std::vector<ProbeRecord>& history) {
  const std::vector<ProbeRecord> earlier(history.begin(), history.end() - 1);
  const Bracket now = bracket_of(history), before = bracket_of(earlier);
  return before.closed() && 2 * now.width() > before.width();
}

// A size with what tensors held for it: affine in the size, and free of the allocator's rounding.
struct Point {
  double size = 0;
  double allocated = 0;
};

Point point_of(const ProbeRecord& probe) {
  return {static_cast<double>(probe.micro_batch), static_cast<double>(probe.allocated_bytes)};
}

// The largest measured size below `size`, else what is needed at size 0.
Point point_below(const std::vector<ProbeRecord>& history, int64_t size, const SearchLimits& limits) {
  const ProbeRecord* const below = largest_where(
      history, [&](const ProbeRecord& probe) { return probe.peak_bytes > 0 && probe.micro_batch < size; });
  return below ? point_of(*below) : Point{0, static_cast<double>(limits.floor_bytes)};
}

// Predicts what the next trial will need beside its tensors. That grows with every size that is tried, larger
// or smaller, because libraries keep what they compiled for a shape. So it is expected to grow once more, by
// as much as it did last.
double expected_beside(const std::vector<ProbeRecord>& history) {
  double last = 0, before = 0;
  for (const ProbeRecord& probe : history) {
    if (probe.peak_bytes == 0) continue;
    before = last;
    last = static_cast<double>(probe.peak_bytes - probe.allocated_bytes);
  }
  return last + std::max(0.0, last - before);
}

// The band's upper edge.
double edge_bytes(const SearchLimits& limits) {
  return limits.target_high * static_cast<double>(limits.budget_bytes);
}

// The peak that the next trial should have. Above the usual aim: half of what is left of the band.
double aim_bytes(const SearchLimits& limits, const ProbeRecord& fit) {
  const double fill = limits.target_low + kAim * (limits.target_high - limits.target_low);
  const double aim = fill * static_cast<double>(limits.budget_bytes);
  const auto peak = static_cast<double>(fit.peak_bytes);
  return peak < aim ? aim : (peak + edge_bytes(limits)) / 2;
}

// Through two points.
struct Line {
  Point at;
  double slope = 0;  // bytes a sample
  double size_for(double allocated) const { return at.size + (allocated - at.allocated) / slope; }
  double allocated_at(double size) const { return at.allocated + slope * (size - at.size); }
};

// Returns nothing when the line does not rise, for then it predicts nothing.
std::optional<Line> rising_line(const Point& at, const Point& other) {
  const double slope = (at.allocated - other.allocated) / (at.size - other.size);
  return std::isfinite(slope) && slope > 0 ? std::optional(Line{at, slope}) : std::nullopt;
}

// How much the tensors of the next trial may hold for its peak to reach the aim. `fit` is the largest size
// that fitted; when none did, a record without a peak.
double aim_for_tensors(const std::vector<ProbeRecord>& history, const ProbeRecord& fit,
                       const SearchLimits& limits) {
  return aim_bytes(limits, fit) - expected_beside(history);
}

bool spent(const std::vector<ProbeRecord>& history, const SearchLimits& limits) {
  double seconds = 0;
  for (const ProbeRecord& probe : history) seconds += probe.seconds;
  return static_cast<int64_t>(history.size()) >= limits.max_probes || seconds >= limits.max_seconds;
}

int64_t first_size(const SearchLimits& limits) {
  const int64_t size = std::clamp(kFirstSize, limits.minimum, limits.cap);
  return size == limits.cap
             ? size
             : size_between(static_cast<double>(size), limits.minimum - 1, limits.cap + 1, limits);
}

// While no size has fitted, tries a quarter of the smallest failure, or first the size that its own peak
// suggests.
SearchStep shrink(const std::vector<ProbeRecord>& history, const ProbeRecord& failure,
                  const SearchLimits& limits) {
  if (failure.micro_batch <= limits.minimum) return {true, 0, SearchReason::kDoesNotFit};
  double size = static_cast<double>(failure.micro_batch) / 4;
  const bool first = history.size() == 1;  // the line is too steep where much is needed at any size
  if (first && failure.peak_bytes > 0 && limits.pivot == Pivot::kInterpolate) {
    const Point empty{0, static_cast<double>(limits.floor_bytes)};
    if (const auto line = rising_line(point_of(failure), empty))
      size = line->size_for(aim_for_tensors(history, {}, limits));
  }
  // With everything spent, the smallest size is still tried: "does not fit" must have been seen.
  if (spent(history, limits)) return {false, limits.minimum, {}};
  const int64_t next = size_between(size, limits.minimum - 1, failure.micro_batch, limits);
  return {false, std::max(next, limits.minimum), {}};
}

// Through the largest size that fitted and the one below it.
std::optional<Line> line_of_fits(const std::vector<ProbeRecord>& history, const ProbeRecord& fit,
                                 const SearchLimits& limits) {
  return rising_line(point_of(fit), point_below(history, fit.micro_batch, limits));
}

// The size that this line predicts for the aim.
std::optional<double> predicted_size(const std::vector<ProbeRecord>& history, const ProbeRecord& fit,
                                     const SearchLimits& limits) {
  const auto line = line_of_fits(history, fit, limits);
  return line ? std::optional(line->size_for(aim_for_tensors(history, fit, limits))) : std::nullopt;
}

// Between a size that fitted and one that did not; nothing when no line can be drawn. What a refused size
// would have needed is not known. If the line through the sizes that fitted has it well beyond what is
// granted, it goes on there; if that line has it in the band, memory is steeper than the line, nobody knows
// how much.
std::optional<Line> line_to_failure(const std::vector<ProbeRecord>& history, const Bracket& bracket,
                                    const SearchLimits& limits) {
  const ProbeRecord& fit = *bracket.largest_fit;
  const ProbeRecord& failure = *bracket.next_failure;
  if (failure.peak_bytes > 0) return rising_line(point_of(fit), point_of(failure));
  const auto line = line_of_fits(history, fit, limits);
  if (!line) return std::nullopt;
  const double predicted =
      line->allocated_at(static_cast<double>(failure.micro_batch)) + expected_beside(history);
  return predicted > edge_bytes(limits) ? line : std::nullopt;
}

// The least that any trial needed beside its tensors.
double least_beside(const std::vector<ProbeRecord>& history) {
  double least = std::numeric_limits<double>::infinity();
  for (const ProbeRecord& probe : history) {
    if (probe.peak_bytes > 0)
      least = std::min(least, static_cast<double>(probe.peak_bytes - probe.allocated_bytes));
  }
  return least;
}

// The line of tensors through the largest size that was measured and the largest of at most half of it:
// nothing where there is none, for a line from what is known at size 0 is too steep.
std::optional<Line> line_of_tensors(const std::vector<ProbeRecord>& history) {
  const auto measured = [](const ProbeRecord& probe) { return probe.peak_bytes > 0; };
  const ProbeRecord* const at = largest_where(history, measured);
  if (at == nullptr) return std::nullopt;
  const ProbeRecord* const other = largest_where(history, [&](const ProbeRecord& probe) {
    return measured(probe) && 2 * probe.micro_batch <= at->micro_batch;
  });
  return other ? rising_line(point_of(*at), point_of(*other)) : std::nullopt;
}

// No larger size can fit: with it, tensors alone and the least that was ever needed beside them are at the
// band's upper edge. Nothing while the trials do not tell.
std::optional<double> largest_possible(const std::vector<ProbeRecord>& history, const SearchLimits& limits) {
  const auto line = line_of_tensors(history);
  if (!line) return std::nullopt;
  return std::min(line->size_for(edge_bytes(limits) - least_beside(history)),
                  static_cast<double>(limits.cap));
}

// The size of the grid above the largest that fitted that is next to `wanted`, and no more than 16 times it.
int64_t grown(double wanted, int64_t fit, const SearchLimits& limits) {
  return grid_between(std::min(wanted, kLargestGrowth * static_cast<double>(fit)), fit, limits.cap + 1,
                      limits);
}

// A larger size to try though this one is in the band and nothing above it failed; 0 when none can fit. Where
// parameters take most of the budget, a tiny micro-batch is in the band already.
int64_t larger_in_band(const std::vector<ProbeRecord>& history, const ProbeRecord& fit,
                       const SearchLimits& limits) {
  const auto size = static_cast<double>(fit.micro_batch);
  const int64_t next = grown(size, fit.micro_batch, limits);
  const auto most = largest_possible(history, limits);
  if (most && *most < static_cast<double>(next)) return 0;
  const double predicted = predicted_size(history, fit, limits).value_or(2 * size);
  const double wanted = most ? std::max(predicted, std::sqrt(size * *most)) : predicted;
  return grown(wanted, fit.micro_batch, limits);
}

// Memory is not monotone in the size: one may fail for what a library needs beside its tensors, and twice
// that size fit. Returns a size above the failure to try; 0 when tensors alone would be too much there.
int64_t size_above_failure(const std::vector<ProbeRecord>& history, const ProbeRecord& failure,
                           const SearchLimits& limits) {
  if (failure.outcome != ProbeOutcome::kAboveBand && failure.outcome != ProbeOutcome::kRefused) return 0;
  const auto most = largest_possible(history, limits);
  if (!most) return 0;
  const auto low = static_cast<double>(failure.micro_batch);
  double high = *most;
  int64_t looks = 0;
  for (const ProbeRecord& probe : history) {
    if (probe.micro_batch <= failure.micro_batch) continue;
    high = std::min(high, static_cast<double>(probe.micro_batch));
    ++looks;
  }
  if (looks >= kMostLooks || high < kWorthALook * low) return 0;
  return grid_between(std::sqrt(low * high), failure.micro_batch, limits.cap + 1, limits);
}

SearchStep grow(const std::vector<ProbeRecord>& history, const ProbeRecord& fit, const SearchLimits& limits) {
  const auto size = static_cast<double>(fit.micro_batch);
  if (limits.pivot == Pivot::kMidpoint)
    return {false, size_between(2 * size, fit.micro_batch, limits.cap + 1, limits), {}};
  const double wanted = predicted_size(history, fit, limits).value_or(kLargestGrowth * size);
  return {false, grown(wanted, fit.micro_batch, limits), {}};
}

// Where between a size that fitted and one that did not to try next. The midpoint follows whenever the width
// was not halved, so it is at least every two trials.
double pivot_between(const std::vector<ProbeRecord>& history, const Bracket& bracket,
                     const SearchLimits& limits) {
  const ProbeRecord& fit = *bracket.largest_fit;
  const ProbeRecord& failure = *bracket.next_failure;
  const auto low = static_cast<double>(fit.micro_batch);
  const auto width = static_cast<double>(bracket.width());
  if (limits.pivot == Pivot::kMidpoint || hardly_narrowed(history)) return low + width / 2;
  double pivot = low + width / 2;
  if (failure.peak_bytes > fit.peak_bytes) {
    const auto rise = static_cast<double>(failure.peak_bytes - fit.peak_bytes);
    pivot = low + width * (aim_bytes(limits, fit) - static_cast<double>(fit.peak_bytes)) / rise;
  } else if (const auto line = line_to_failure(history, bracket, limits)) {
    pivot = line->size_for(aim_for_tensors(history, fit, limits));
  }
  const double edge = std::max(1.0, kEdgeShare * width);
  return std::clamp(pivot, low + edge, low + width - edge);
}

SearchStep narrow(const std::vector<ProbeRecord>& history, const Bracket& bracket,
                  const SearchLimits& limits) {
  const ProbeRecord& failure = *bracket.next_failure;
  const int64_t low = bracket.largest_fit->micro_batch, high = failure.micro_batch;
  const bool in_band = bracket.largest_fit->fill >= limits.target_low;
  const bool interpolates = limits.pivot == Pivot::kInterpolate;
  const double pivot = pivot_between(history, bracket, limits);
  int64_t next = interpolates ? grid_between(pivot, low, high, limits) : 0;
  if (next == 0 && interpolates) next = size_above_failure(history, failure, limits);
  const bool fine = failure.outcome == ProbeOutcome::kTooSlow &&
                    static_cast<double>(high - low) <= limits.resolution * static_cast<double>(high);
  if (next == 0 && !in_band && !fine) {
    next =
        interpolates ? half_step_between(pivot, low, high, limits) : size_between(pivot, low, high, limits);
  }
  if (next != 0) return {false, next, {}};
  if (in_band) return {true, low, SearchReason::kInBand};
  switch (failure.outcome) {
    case ProbeOutcome::kIndexLimit: return {true, low, SearchReason::kIndexLimit};
    case ProbeOutcome::kTooSlow: return {true, low, SearchReason::kLatency};
    default: return {true, low, SearchReason::kGranularity};
  }
}

// How much memory a failed trial shows to be granted, if it shows it. Where a library failed or the process
// ended, nobody says how much was in use; then it is what the line through the sizes that ran predicts.
std::optional<double> shown_ceiling(const std::vector<ProbeRecord>& history, const ProbeRecord& failure,
                                    const SearchLimits& limits) {
  if (failure.refused_bytes > 0) return static_cast<double>(failure.refused_bytes);
  if (failure.outcome != ProbeOutcome::kLibrary && failure.outcome != ProbeOutcome::kCrashed)
    return std::nullopt;
  const ProbeRecord* const fit = fit_below(history, failure.micro_batch);
  if (fit == nullptr || fit_below(history, fit->micro_batch) == nullptr) return std::nullopt;
  const auto line = line_of_fits(history, *fit, limits);
  if (!line) return std::nullopt;
  return line->allocated_at(static_cast<double>(failure.micro_batch)) + expected_beside(history);
}

// ------------------------------------------------------------------ throughput

double best_rate(const std::vector<ProbeRecord>& history) {
  double best = 0;
  for (const ProbeRecord& probe : history) {
    if (probe.fits()) best = std::max(best, probe.samples_per_second);
  }
  return best;
}

}  // namespace

// A refusal in the upper half of what the band leaves free costs the band next to nothing.
int64_t granted_bytes(const std::vector<ProbeRecord>& history, const SearchLimits& limits) {
  const double worth_a_word = (1 + limits.target_high) / 2 * static_cast<double>(limits.budget_bytes);
  auto granted = static_cast<double>(limits.budget_bytes);
  int64_t had = 0;
  for (const ProbeRecord& probe : history) {
    had = std::max(had, probe.peak_bytes);
    if (probe.peak_bytes == 0)
      granted = std::min(granted, shown_ceiling(history, probe, limits).value_or(granted));
  }
  if (granted >= worth_a_word) return limits.budget_bytes;
  return std::min(limits.budget_bytes, std::max(had, static_cast<int64_t>(granted)));
}

void judge(ProbeRecord& probe, int64_t budget_bytes, double target_high) {
  if (probe.peak_bytes == 0) return;
  probe.fill = static_cast<double>(probe.peak_bytes) / static_cast<double>(budget_bytes);
  if (probe.outcome == ProbeOutcome::kFits || probe.outcome == ProbeOutcome::kAboveBand)
    probe.outcome = probe.fill > target_high ? ProbeOutcome::kAboveBand : ProbeOutcome::kFits;
}

std::optional<Band> raised_band(const std::vector<ProbeRecord>& history, const SearchLimits& limits,
                                double asked) {
  const ProbeRecord* const smallest = find_size(history, limits.minimum);
  const bool inside =
      smallest != nullptr && smallest->outcome == ProbeOutcome::kAboveBand && smallest->fill <= 1;
  if (!inside || limits.target_high >= 1) return std::nullopt;
  return Band{smallest->fill, limits.target_high <= asked ? (1 + smallest->fill) / 2 : 1};
}

// The band is where a search must end, not where it may stop: it goes on while a larger size of the grid may
// be in it too.
SearchStep next_size_in_band(const std::vector<ProbeRecord>& history, const SearchLimits& limits) {
  if (history.empty()) return {false, first_size(limits), {}};
  const Bracket bracket = bracket_of(history);
  if (bracket.largest_fit == nullptr) return shrink(history, *bracket.next_failure, limits);
  const ProbeRecord& fit = *bracket.largest_fit;
  const bool in_band = fit.fill >= limits.target_low;
  const auto end_with = [&](SearchReason reason) {
    return SearchStep{true, fit.micro_batch, in_band ? SearchReason::kInBand : reason};
  };
  if (in_band && limits.pivot == Pivot::kMidpoint) return end_with(SearchReason::kInBand);
  if (fit.micro_batch >= limits.cap) return end_with(limits.cap_reason);
  if (spent(history, limits)) return end_with(SearchReason::kSearchLimit);
  if (bracket.next_failure != nullptr) return narrow(history, bracket, limits);
  if (!in_band) return grow(history, fit, limits);
  const int64_t larger = larger_in_band(history, fit, limits);
  return larger > 0 ? SearchStep{false, larger, {}} : end_with(SearchReason::kInBand);
}

const ProbeRecord* fit_below(const std::vector<ProbeRecord>& history, int64_t size) {
  return largest_where(history,
                       [&](const ProbeRecord& probe) { return probe.fits() && probe.micro_batch < size; });
}

const ProbeRecord* smallest_fast(const std::vector<ProbeRecord>& history, double share) {
  const double enough = (1 - share) * best_rate(history);
  const ProbeRecord* smallest = nullptr;
  for (const ProbeRecord& probe : history) {
    const bool fast = probe.fits() && probe.samples_per_second >= enough;
    if (fast && (smallest == nullptr || probe.micro_batch < smallest->micro_batch)) smallest = &probe;
  }
  return smallest;
}

const ProbeRecord* find_size(const std::vector<ProbeRecord>& history, int64_t size) {
  for (const ProbeRecord& probe : history) {
    if (probe.micro_batch == size) return &probe;
  }
  return nullptr;
}

// Doubles from the first size while samples per second still rise, then halves below the first size
// while they hardly fall.
SearchStep next_size_for_throughput(const std::vector<ProbeRecord>& history, const SearchLimits& limits) {
  if (history.empty()) return {false, first_size(limits), {}};
  const Bracket bracket = bracket_of(history);
  if (bracket.largest_fit == nullptr) return shrink(history, *bracket.next_failure, limits);
  const ProbeRecord& good = *smallest_fast(history, limits.throughput_share);
  if (spent(history, limits)) return {true, good.micro_batch, SearchReason::kSearchLimit};

  const ProbeRecord& largest = *bracket.largest_fit;
  const auto size = static_cast<double>(largest.micro_batch);
  const int64_t doubled = multiple_between(2 * size, largest.micro_batch, limits.cap + 1, limits.multiple_of);
  const ProbeRecord* const before = fit_below(history, largest.micro_batch);
  const bool rising = before == nullptr ||
                      largest.samples_per_second * (1 - limits.throughput_share) > before->samples_per_second;
  if (rising && bracket.next_failure == nullptr && doubled > 0) return {false, doubled, {}};

  const int64_t halved = multiple_between(static_cast<double>(good.micro_batch) / 2, limits.minimum - 1,
                                          good.micro_batch, limits.multiple_of);
  if (halved > 0 && fit_below(history, good.micro_batch) == nullptr) return {false, halved, {}};
  return {true, good.micro_batch, SearchReason::kKnee};
}

const std::vector<StrategyRow>& strategy_table() {
  static const std::vector<StrategyRow> table = {
      {{"binary", "Fill the band: a binary search whose pivots are interpolated from measured peaks."},
       &next_size_in_band,
       false},
      {{"throughput", "The smallest size that is fast, as throughput_share says."},
       &next_size_for_throughput,
       true}};
  return table;
}

const StrategyRow& find_strategy(const std::string& name) {
  for (const StrategyRow& row : strategy_table()) {
    if (row.spec.name == name) return row;
  }
  throw Error(ExitCode::kBadRecipe, "execution.search.strategy", "there is no strategy named " + name);
}

}  // namespace autotrain
