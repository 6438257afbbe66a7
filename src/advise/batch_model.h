#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "autotrain/plan.h"
#include "autotrain/report.h"
#include "base/enum_names.h"

namespace autotrain {

/// What an update of a single micro-batch takes on one device.
struct SpeedPoint {
  int64_t micro_batch = 0;  ///< samples
  double seconds = 0;       ///< forward, backward and the optimizer's step; median of the repeats
  int64_t repeats = 0;      ///< 0: from what the run left, not measured for this

  /// Half the length of the median's 95 % interval (of fewer than six repeats, half their range) ÷ the
  /// median; 0: not known.
  double uncertainty = 0;
};

/// How updates of any size are executed on devices like the one that was measured, and how long they take.
struct ExecutionModel {
  std::vector<SpeedPoint> points = {};  ///< ascending by micro-batch, at least one
  double update_seconds = 0;            ///< of them the optimizer's step, which an update makes once
  int64_t capacity = 1;                 ///< largest micro-batch that is known to fit
  Cut cut = Cut::kEven;
  int64_t smallest_piece = 1;                   ///< 2: batch normalisation has no statistics of one sample
  std::optional<double> exchange_seconds = {};  ///< of an update of several devices; nothing: not measured
  std::vector<std::pair<int64_t, int64_t>> peaks = {};  ///< micro-batch, measured peak in bytes; ascending

  /// The micro-batch that a device's share of an update is cut into, as the planner cuts it.
  int64_t micro_batch_of(int64_t share) const;

  /// An update of `effective` samples shared by `devices`; each has at least one sample.
  /// Micro-batches between two that were measured take what the straight line between them says; smaller
  /// ones what the line through the two smallest says, and no less than the optimizer's step. Where a single
  /// one was measured, smaller ones take as long, and each sample of larger ones as long as one of it.
  double seconds_of(int64_t effective, int64_t devices) const;

  /// Peak memory of a micro-batch, on the line between measured ones; nothing without two that were measured,
  /// unless it is one of them.
  std::optional<int64_t> peak_of(int64_t micro_batch) const;

  /// Whether this very micro-batch was measured.
  bool measured(int64_t micro_batch) const;

  /// SpeedPoint::uncertainty of a micro-batch: that of one between two is the larger one.
  double uncertainty_of(int64_t micro_batch) const;

 private:
  double piece_seconds(int64_t samples) const;
};

/// A quantity relative to the run's own batch, over the interval of the noise scale, and of speeds.
struct Ranged {
  std::optional<double> value = {};  ///< at the estimate; nothing: only the bounds are known
  double low = 0, high = 0;
};

/// By the model of McCandlish et al. 2018 (arXiv:1812.06162, eq. 2.11): to the same loss, batches of E
/// samples need 1 + B ÷ E times the updates of an infinite one, so E + B in the place of `own` + B samples.
Ranged samples_ratio(int64_t effective, int64_t own, const NoiseScale& noise);

/// One size in the table.
struct BatchRow {
  int64_t effective = 0;
  int64_t micro_batch = 0;
  int64_t window = 0;             ///< micro-batches of a device
  double samples_per_second = 0;  ///< of all devices
  bool measured = false;          ///< the speed of this micro-batch; else interpolated
  std::optional<int64_t> peak_bytes = {};
  std::optional<Ranged> updates = {}, samples = {};  ///< ÷ those of the own batch; nothing: no B
  std::optional<Ranged> seconds = {};  ///< likewise; wider by how little the speeds of both are known
};

/// Reached by so many devices.
struct DeviceRow {
  int64_t devices = 0;
  double seconds_at_own = 0;  ///< ÷ the time of the run's batch on the run's devices
  int64_t best_effective = 0;
  double seconds_at_best = 0;
};

enum class BatchVerdict { kRaise, kLower, kKeep, kUnknown };

constexpr auto enum_names(BatchVerdict) {
  return std::array{EnumName<BatchVerdict>{BatchVerdict::kRaise, "raise"},
                    EnumName<BatchVerdict>{BatchVerdict::kLower, "lower"},
                    EnumName<BatchVerdict>{BatchVerdict::kKeep, "keep"},
                    EnumName<BatchVerdict>{BatchVerdict::kUnknown, "unknown"}};
}

struct BatchRequest {
  ExecutionModel execution = {};
  std::optional<NoiseScale> noise = {};
  int64_t own = 0;                 ///< samples per update of the run
  int64_t devices = 1;             ///< that made it
  int64_t dataset_size = 0;        ///< no update sees a sample twice
  double throughput_share = 0.05;  ///< of the best samples/s, that a size may lose and still is fast
};

struct BatchAdvice {
  std::vector<BatchRow> rows = {};  ///< the own batch times powers of two
  size_t own = 0;                   ///< its row
  int64_t knee = 0;                 ///< smallest row that is fast; below it devices idle
  BatchVerdict verdict = BatchVerdict::kUnknown;
  size_t advised = 0;                   ///< row; the own one unless the verdict says otherwise
  bool unsure = false;                  ///< another size would gain, but not at both ends of the interval
  std::vector<DeviceRow> devices = {};  ///< empty: of the noise scale only a bound is known
  std::optional<int64_t> most_devices = {};      ///< more of them gain less than a tenth, at the best batch
  std::optional<int64_t> most_devices_own = {};  ///< likewise at the own batch
};

/// What changes time by less is not advised.
inline constexpr double kWorthwhile = 0.05;

/// More devices that save a smaller part of the time than this are not worth it.
inline constexpr double kWorthDevices = 0.10;

/// The sizes that the table will have: the own batch times powers of two, around the knee and the noise
/// scale.
std::vector<int64_t> batch_sizes(int64_t own, int64_t devices, int64_t dataset_size, int64_t capacity,
                                 const std::optional<NoiseScale>& noise);

/// Table, knee, verdict and devices. Pure.
BatchAdvice advise_batch(const BatchRequest& request);

}  // namespace autotrain
