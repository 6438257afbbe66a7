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

/// [n, length, K] as [n × length, K]: the class dimension is last in both.
torch::Tensor flat_logits(const torch::Tensor& prediction);

/// The target of a regression in float32: of the prediction's shape, or class indices as one-hot vectors.
/// @throws Error(kBadData) when it is neither.
torch::Tensor regression_target(const torch::Tensor& prediction, const torch::Tensor& target);

/// Perplexity where predictions are of sequences; of others it gives no figure.
std::shared_ptr<const PredictionMetric> sequence_perplexity(const MetricOptions& options);

/// What a batch adds to each metric.
std::vector<Measured> measured(const PredictionMetrics& metrics, const torch::Tensor& prediction,
                               const torch::Tensor& target);

/// Rows that ranked_metrics.cpp adds to the table: areas under curves, exact and from bins.
std::vector<MetricRow> ranking_rows();

}  // namespace autotrain
