#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "autotrain/data.h"
#include "data/loader.h"
#include "data/look.h"
#include "device/device.h"
#include "measure/recorded_forward.h"
#include "model/models.h"
#include "plan/inference_search.h"
#include "predict/prediction_rows.h"
#include "study/trained_run.h"

namespace autotrain {

/// The samples of a prediction.
struct PredictionData {
  std::unique_ptr<Dataset> data = {};
  std::string source = {};  ///< where they come from, in words that differ where the samples do
  std::string where = {};   ///< as errors begin: a path, or a section of the recipe
  DatasetInfo trained_on = {};
  std::vector<std::string> class_names = {};  ///< of the training data; empty: numbers only
  std::string note = {};                      ///< what is done to files to make samples of them; "": nothing

  /// Says what the files hold that samples come from: rows of a table have no names by which others are told.
  std::function<std::string()> fingerprint = nullptr;

  /// Looks at new files beside the training data; null: there are none. The recipe must outlive it.
  std::function<std::vector<Doubt>()> doubts = nullptr;

  /// A sample's file, where samples have names; else null. This object must outlive it.
  std::function<std::string(int64_t sample)> sample_name() const;
};

/// @param source "validation", "train", or files like those of the run: a folder of images, an image, a
/// table.
/// @throws Error as the data sets find their files; Error(kUsage) when there is no such source, and
/// Error(kBadData) when the run's model takes other samples.
PredictionData load_prediction_data(const Recipe& recipe, const std::string& source);

/// A trained model and samples for it: device, weights, and nothing of what trains.
class Predictor {
 public:
  /// @param settled the budget that a search ended with.
  /// @throws Error as data, model and weights are found; Error(kDoesNotFit) when they take more than the
  /// device's budget; Error(kBadData) when the samples do not go through the model.
  Predictor(const TrainedRun& run, const std::string& source, std::optional<ResolvedBudget> settled = {});

  const PredictionData& data() const { return data_; }
  Device& device() { return *device_; }

  /// The model's output for the first sample, in main memory: [1, …].
  const torch::Tensor& first_output() const { return first_output_; }

  /// From now on the rule says what is told of outputs, and `rows`, which must outlive this object, how it is
  /// written.
  void set_rows(const PredictionRule& rule, const RowWriter& rows);

  /// The samples from `first` on in batches of so many.
  std::unique_ptr<Loader> open_loader(int64_t first, int64_t batch) const;

  /// The rows of a batch whose first sample is number `first`.
  std::string rows_of(int64_t first, const Batch& batch);

  /// What the rule tells of the first sample: [1, …].
  torch::Tensor told_of_first(const PredictionRule& rule);

  /// Searches the batch by running what a prediction runs. @throws as find_inference_batch.
  SearchResult find_batch(std::optional<int64_t> typed, std::optional<double> latency_seconds,
                          const std::vector<ProbeRecord>& known, const TrialListener& listener);

 private:
  torch::Tensor forward(const Batch& batch);
  torch::Tensor forward_or_replay(const Batch& batch);
  torch::Tensor check_first_sample();
  double trial(int64_t batch, int64_t timed_passes);
  double pass(Loader& loader);

  const TrainedRun run_;
  const Recipe recipe_;  // as planned
  std::unique_ptr<Device> device_;
  Precision precision_ = Precision::kFp32;  // resolved
  PredictionData data_;
  std::unique_ptr<Task> task_;
  Network* network_ = nullptr;  // the task's module
  Loader::Options loading_;
  Batch first_;  // the first sample, on the device
  torch::Tensor first_output_;
  RecordedForward recorded_;
  int64_t last_samples_ = 0;  // of the batch before
  bool tried_to_record_ = false;
  PredictionRule rule_;
  const RowWriter* rows_ = nullptr;
};

}  // namespace autotrain
