#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace autotrain {

/// What a point did with memory beside its peak, all its rounds together. Nothing where a measurement does
/// not tell: one that an older version kept, or of a machine without such a file.
struct PointMemory {
  std::optional<double> allocated_bytes =
      {};                                     ///< the most that tensors held, in the round that reserved most
  std::optional<double> reserved_bytes = {};  ///< the most that the allocator held for them there

  /// What the whole machine read from its swap meanwhile, and wrote to it, whoever's it was.
  std::optional<double> swapped_in_bytes = {}, swapped_out_bytes = {};

  /// What the allocator held at most beyond what tensors did at most.
  std::optional<double> fragmentation_bytes() const;

  /// Whether the machine swapped.
  bool swapped() const { return swapped_in_bytes.value_or(0) + swapped_out_bytes.value_or(0) > 0; }
};

/// One batch size of one variant, all rounds together.
struct SweepPoint {
  int64_t batch = 0;
  std::string failure = {};  ///< why there are no figures; then the rest is empty
  int code = 0;              ///< exit code of what failed, or minus the signal that killed it

  double p50_seconds = 0, p90_seconds = 0, p99_seconds = 0;  ///< of one call
  std::optional<double> half_width = {};  ///< of the median's 95 % interval, relative; nothing: too few calls
  std::optional<double> drift = {};       ///< the largest median of a round ÷ the smallest, less 1; of
                                          ///< one round nothing
  int64_t repeats = 0;                    ///< calls that count, equally many of each round
  bool cuda_graphs = false;               ///< calls replayed recorded kernels
  std::string ended_by = {};              ///< of the last round: narrow | seconds | repeats

  double samples_per_second = 0;                ///< batch ÷ median
  double flops_per_second = 0;                  ///< counted operations ÷ median
  std::optional<double> bytes_per_second = {};  ///< counted bytes ÷ median; inference only
  int64_t peak_bytes = 0;                       ///< above what the process had at its start
  double fill = 0;                              ///< of the budget
  int64_t allocator_retries = 0;
  int64_t swapped_bytes = 0;
  int64_t major_faults = 0;
  PointMemory memory = {};
  std::optional<double> copy_to_device_seconds = {};  ///< nothing on a CPU, and of the caller's own code
  std::optional<double> copy_to_host_seconds = {};

  /// Where the time of a call goes that was observed operator by operator, as shares of it; the rest is
  /// between operators. Nothing of training on a GPU.
  std::optional<double> products_share = {}, others_share = {};
  std::optional<double> products_flops_per_second = {};  ///< while products are computed

  /// The rest; nothing where the other two are not known.
  std::optional<double> between_share() const;
};

/// Where a larger batch stops being free: the batch at which the line through the best throughput meets the
/// shortest latency.
struct Knee {
  double batch = 0;          ///< flat_seconds × best_rate
  double flat_seconds = 0;   ///< the shortest latency of any batch
  int64_t flat_batch = 0;    ///< that had it
  double best_rate = 0;      ///< samples a second, the highest of any batch
  int64_t best_batch = 0;    ///< that reached it
  bool reached = false;      ///< false: throughput still rose at the largest batch, so the knee is further
  bool below_range = false;  ///< the smallest batch is beyond the knee already
};

/// What a sweep of the caller's own code came to.
struct SweepResult {
  std::vector<SweepPoint> points = {};  ///< ascending by batch; those that do not fit have a failure
  std::optional<Knee> knee = {};        ///< nothing of fewer than two points
  double flops_per_sample = 0;          ///< of products; 0: none were seen
  double weight_bytes = 0;              ///< read once a batch
  double predicted_batch = 0;  ///< where reading the weights takes as long as computing; 0: not predicted
  std::vector<std::string> sentences = {};  ///< what it says, for people
};

}  // namespace autotrain
