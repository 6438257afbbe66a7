#pragma once

#include <functional>
#include <string>
#include <vector>

#include "autotrain/metrics.h"
#include "recipe/keys.h"

namespace autotrain {

/// A metric that recipes and `make_metric` know by name.
struct MetricRow {
  ChoiceSpec spec;  ///< "topK" stands for top1, top2, …
  std::vector<TargetKind> kinds;
  std::function<std::shared_ptr<const PredictionMetric>(const std::string& name, const MetricOptions&)> make;
};

const std::vector<MetricRow>& metric_table();

/// Adds a part of the program's own. To be called before anything refers to a row.
void add_row(MetricRow row);

/// One row of logits for each target: [targets, K]. The prediction has its classes last, [n, K] or [n, …, K],
/// or second, [n, K, …], as PyTorch has those of pixels and positions; the target, [n, …] or [n, 1, …], says
/// which. Where all sizes are equal, of a sequence the classes are the last.
/// @throws Error(kBadData) where it is neither; where it may be both, of more than one dimension of
/// positions.
torch::Tensor flat_logits(const torch::Tensor& prediction, const torch::Tensor& target);

/// Labels as rows: [n, K]. Those of pixels, [n, K, h, w] and more, are a row for each; of [n, K, L] each
/// place is a label of its own.
torch::Tensor label_rows(const torch::Tensor& labels);

/// The target of a regression in float32: of the prediction's shape, or class indices as one-hot vectors.
/// @throws Error(kBadData) when it is neither.
torch::Tensor regression_target(const torch::Tensor& prediction, const torch::Tensor& target);

/// Perplexity where predictions are of sequences; of others it gives no figure.
std::shared_ptr<const PredictionMetric> sequence_perplexity(const MetricOptions& options);

/// Mean intersection over union where there is a class for every pixel; of others it gives no figure.
std::shared_ptr<const PredictionMetric> dense_iou(const MetricOptions& options);

/// What a batch adds to each metric.
std::vector<Measured> measured(const PredictionMetrics& metrics, const torch::Tensor& prediction,
                               const torch::Tensor& target);

/// Rows that ranked_metrics.cpp adds to the table: areas under curves, exact and from bins.
std::vector<MetricRow> ranking_rows();

}  // namespace autotrain
