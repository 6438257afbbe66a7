#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "autotrain/error.h"
#include "autotrain/task.h"
#include "data/loader.h"
#include "plan/workbench.h"

namespace autotrain {

/// What an evaluation found: "loss" and the figures of the task's metrics.
struct Evaluation {
  std::map<std::string, double> figures = {};
  FigureKinds kinds = {};  ///< of every figure
  std::vector<FigureTable> tables = {};

  nlohmann::ordered_json to_json() const;
  static Evaluation from_json(const nlohmann::ordered_json& json);
};

/// Gathers what the batches of an evaluation give. Sums stay on the device until the end.
class EvaluationSums {
 public:
  /// @throws Error when the task's metrics are not the same ones as for the batch before.
  void add(const EvaluationTerms& terms);

  /// @throws Error when two figures have one name.
  Evaluation result();

 private:
  struct Gathered {
    std::shared_ptr<const Metric> metric;
    MetricState sums;                              // its rows are empty
    std::vector<std::vector<torch::Tensor>> rows;  // of each batch, in main memory
  };
  static void add(Gathered& gathered, const MetricState& state);

  torch::Tensor loss_sum_, loss_weight_;  // float64 scalars
  std::vector<NamedTensor> parts_;        // of the loss, likewise
  std::vector<Gathered> metrics_;
  int64_t batches_ = 0;
};

/// What the figures of an evaluation are, from one sample.
FigureKinds evaluation_kinds(Workbench& bench);

/// Says what metrics keep until the figures are computed: predictions of every sample, which need memory
/// beside that of a batch, and large tables that are added up.
struct Gathering {
  std::string split = {};  ///< whose samples they are: "validation", "test"
  int64_t samples = 0;
  int64_t bytes = 0;                      ///< of all metrics' rows
  int64_t largest = 0;                    ///< of the one that keeps most
  int64_t tables = 0;                     ///< of all metrics' sums, where these are large
  std::vector<std::string> figures = {};  ///< of metrics that keep some

  /// While one metric's rows are joined or their columns are put in order, or a batch's tables are added.
  int64_t at_once() const {
    constexpr int64_t kOfAColumn = 24;  // bytes a sample: where it is, the score, its truth, its place
    return bytes + (bytes > 0 ? std::max(largest, kOfAColumn * samples) : 0) + 2 * tables;
  }
};

/// Returns what an evaluation of all of `data` gathers, as one sample shows it. @param split the data's name.
Gathering gathered_by_metrics(Workbench& bench, const Dataset& data, const std::string& split);

/// Error(kDoesNotFit) naming the metrics, and those that keep nothing. @param beside what there is for it.
Error too_much_gathered(const Gathering& gathering, const std::string& beside);

/// Evaluates data, such as those of validation, once, in pieces of `micro_batch`, in evaluation mode. Several
/// ranks share the pieces out, all with the first one's buffers; what they find is added in the order of the
/// pieces, to the bits of one rank.
/// @param proceed called after every piece with the samples done; false stops the evaluation on all ranks.
/// @return nothing when it was stopped.
/// @throws as Ranks::meet.
std::optional<Evaluation> evaluate(Workbench& bench, const Dataset& data, int64_t micro_batch,
                                   const std::function<bool(int64_t samples)>& proceed);

}  // namespace autotrain
