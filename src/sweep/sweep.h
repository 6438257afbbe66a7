#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "autotrain/recipe.h"
#include "study/study.h"
#include "sweep/largest_batch.h"
#include "sweep/roofline.h"

namespace autotrain {

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
  std::string ended_by = {};              ///< of the last round: narrow | seconds | repeats

  double samples_per_second = 0;                ///< batch ÷ median
  double flops_per_second = 0;                  ///< counted operations ÷ median
  std::optional<double> bytes_per_second = {};  ///< counted bytes ÷ median; inference only
  int64_t peak_bytes = 0;                       ///< above what the process had at its start
  double fill = 0;                              ///< of the budget
  int64_t allocator_retries = 0;
  int64_t swapped_bytes = 0;
  int64_t major_faults = 0;
  std::optional<double> copy_to_device_seconds = {};  ///< nothing on a CPU
  std::optional<double> copy_to_host_seconds = {};

  /// Where the time of a call goes that was observed operator by operator, as shares of it; the rest is
  /// between operators. Nothing of training on a GPU.
  std::optional<double> products_share = {}, others_share = {};
  std::optional<double> products_flops_per_second = {};  ///< while products are computed

  /// The rest; nothing where the other two are not known.
  std::optional<double> between_share() const;
};

/// What a prediction and a measurement of the knee have to do with each other: ratio = slower × efficiency,
/// exactly.
struct KneeExplanation {
  double ratio = 0;       ///< measured ÷ predicted
  double slower = 0;      ///< the shortest latency ÷ the time to read the weights
  double efficiency = 0;  ///< the best throughput ÷ what the measured peak would allow
  double calls = 0;       ///< share of the shortest latency that as many smallest operators take
};

/// The recipe with one value of the varied key.
struct SweepVariant {
  std::string value = {};    ///< of that key; empty when nothing is varied
  std::string failure = {};  ///< why the model as a whole could not be measured
  std::vector<SweepPoint> points = {};

  std::string precision = {};
  double flops_per_sample = 0;     ///< training: backward included
  double weight_bytes = 0;         ///< moved once a batch
  size_t operators = 0;            ///< of a forward pass
  double operator_seconds = 0;     ///< of the smallest one
  Roof roof = {};                  ///< measured: of this precision, and reading so many bytes of weights
  double predicted = 0;            ///< critical batch; 0: nothing to compute
  double predicted_elsewhere = 0;  ///< the same on the device of `Sweep::device_figures`; 0: not asked
  std::optional<Knee> knee = {};   ///< nothing of fewer than two points
  std::optional<KneeExplanation> explanation = {};
  std::map<std::string, double> figures = {};  ///< of the validation data, with trained weights
  nlohmann::ordered_json counted =
      nlohmann::ordered_json::array();  ///< operators of a forward pass, as counted
  int64_t counted_samples = 0;

  /// The products of one call at the batch of the best throughput, as they were observed; inference only.
  nlohmann::ordered_json products = nlohmann::ordered_json::array();
  nlohmann::ordered_json machine = nullptr;
  std::optional<LargestBatch> largest = {};  ///< nothing: not asked for, or not known yet

  /// The point of this batch. Precondition: it has figures.
  const SweepPoint& point_of(int64_t batch) const;
};

struct Sweep {
  std::string name = {};  ///< of the recipe
  SweepMode mode = SweepMode::kInference;
  std::string key = {};  ///< that is varied; empty: none
  std::optional<double> latency_ms = {};
  std::string device_figures = {};  ///< of another device, as the recipe has them; empty: none
  std::vector<SweepVariant> variants = {};
  int64_t unfinished = 0;  ///< measurements that are still to be made
};

struct SweepOptions {
  std::filesystem::path config;
  std::vector<std::string> overrides;
  std::filesystem::path folder;
  bool largest = false;  ///< also find the largest batch in the band of each variant; of inference
  std::function<void(const StudyProgress&)> on_progress = [](const StudyProgress&) {};

  /// After each measurement of this call: the variant's value, the batch, how it ended. A batch below 1
  /// stands for what is measured of no given one.
  std::function<void(const std::string& value, int64_t batch, const StudyResult&)> on_result =
      [](const std::string&, int64_t, const StudyResult&) {};

  /// Likewise: what is known so far.
  std::function<void(const Sweep&)> on_sweep = [](const Sweep&) {};
};

/// Measures every batch of every variant, each round of each in a process of its own, so that memory is
/// counted from nothing and a crash is a row; rounds are interleaved, so that a machine that slows down does
/// so for all. What is finished is kept: the same call goes on where one was killed.
/// @throws Error as loading the recipe and `run_study` do.
Sweep run_sweep(const SweepOptions& options);

/// What `run_sweep` refuses before it measures anything.
void check_sweep(const SweepOptions& options);

/// The point with the largest throughput whose 99th percentile is at most so long; null: none.
const SweepPoint* best_within(const SweepVariant& variant, double seconds);

/// How far a larger batch pays, in one sentence: what a page opens with.
std::string answer_of(const Sweep& sweep, const SweepVariant& variant);

/// What came out, in sentences.
std::vector<std::string> sentences_of(const Sweep& sweep, const SweepVariant& variant);

/// "model.width=64", or the recipe's name when nothing is varied.
std::string label_of(const Sweep& sweep, const SweepVariant& variant);

/// As docs/formats.md has them.
nlohmann::ordered_json to_json(const Sweep& sweep);
std::string to_csv(const Sweep& sweep);

/// From sweep.json. @throws nlohmann::json::exception when it is none.
Sweep sweep_from_json(const nlohmann::ordered_json& json);

}  // namespace autotrain
