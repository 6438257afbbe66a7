#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "autotrain/recipe.h"
#include "autotrain/sweep_result.h"
#include "study/study.h"
#include "sweep/end_to_end.h"
#include "sweep/largest_batch.h"
#include "sweep/roofline.h"

namespace autotrain {

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
  std::optional<LargestBatch> largest = {};     ///< nothing: not asked for, or not known yet
  std::map<int64_t, EndToEnd> end_to_end = {};  ///< by batch; empty: not asked for, or not known yet

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

struct SweepRequest {
  std::filesystem::path config;
  std::vector<std::string> overrides;
  std::filesystem::path folder;
  bool largest = false;     ///< also find the largest batch in the band of each variant; of inference
  bool end_to_end = false;  ///< also measure each batch with loading and output; of inference
  std::function<void(const StudyProgress&)> on_progress = [](const StudyProgress&) {};

  /// After each measurement of this call: what it was and what came out, in a line.
  std::function<void(const std::string& line)> on_result = [](const std::string&) {};

  /// Likewise: what is known so far.
  std::function<void(const Sweep&)> on_sweep = [](const Sweep&) {};
};

/// Measures every batch of every variant, each round of each in a process of its own, so that memory is
/// counted from nothing and a crash is a row; rounds are interleaved, so that a machine that slows down does
/// so for all. What is finished is kept: the same call goes on where one was killed.
/// @throws Error as loading the recipe and `run_study` do.
Sweep run_sweep(const SweepRequest& request);

/// What `run_sweep` refuses before it measures anything.
void check_sweep(const SweepRequest& request);

/// Whether doubling the batch goes on: until it gains nothing, or does not fit.
class Growth {
 public:
  bool goes_on() const { return idle_ < kPatience; }
  void add(const SweepPoint& point);

 private:
  static constexpr int kPatience = 2;  // doublings without a gain
  double best_ = 0;
  int idle_ = 0;
};

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
