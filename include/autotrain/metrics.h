#pragma once

#include <torch/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "autotrain/figures.h"

namespace autotrain {

/// What a metric has gathered so far. Sums stay on the device until the figures are read.
struct MetricState {
  /// Numbers that add up over batches and ranks: of the same shapes for every batch.
  std::vector<torch::Tensor> sums = {};

  /// Rows that are joined along the first dimension: for figures that need all samples at once. They are held
  /// in main memory.
  std::vector<torch::Tensor> rows = {};

  bool empty() const { return sums.empty() && rows.empty(); }
};

/// Turns what was gathered over a whole data set into figures.
class Metric {
 public:
  virtual ~Metric() = default;

  /// Named values of everything gathered, each with what it means. A value that these data cannot tell (the
  /// recall of a class that does not occur) is NaN.
  virtual std::vector<Figure> figures(const MetricState& whole) const = 0;

  /// Tables that go with them, such as a confusion matrix.
  virtual std::vector<FigureTable> tables(const MetricState& whole) const;
};

/// A metric and what one batch adds to it. An empty state says that the metric does not apply to these data.
struct Measured {
  std::shared_ptr<const Metric> metric;
  MetricState state;
};

/// A figure that is Σ sum ÷ Σ weight over the data set: a user's own "nll", say.
/// @param sum, weight scalars without gradient.
Measured mean_figure(const std::string& name, FigureKind kind, const torch::Tensor& sum,
                     const torch::Tensor& weight);

/// A metric of a model's predictions beside the targets.
class PredictionMetric : public Metric {
 public:
  /// What one batch adds. Must not wait for the device.
  virtual MetricState measure(const torch::Tensor& prediction, const torch::Tensor& target) const = 0;
};

using PredictionMetrics = std::vector<std::shared_ptr<const PredictionMetric>>;

/// What predictions and targets are.
enum class TargetKind {
  kClasses,  ///< logits [n, K] or [n, length, K]; one class a row, [n] or [n, length] int64
  kLabels,   ///< logits [n, K], each a label that holds or not; targets [n, K] of 0 and 1
  kNumbers,  ///< predictions and targets of one shape, or class indices compared as one-hot vectors
};

struct MetricOptions {
  TargetKind kind = TargetKind::kClasses;
  int64_t ignore_index = -100;  ///< kClasses: targets of this value count for nothing
};

/// The metric of that name: "accuracy", "top5", "macro_f1", "roc_auc", …; `autotrain config` lists all.
/// @throws Error(kBadRecipe) for an unknown name, or one that does not go with such targets.
std::shared_ptr<const PredictionMetric> make_metric(const std::string& name,
                                                    const MetricOptions& options = {});

}  // namespace autotrain
