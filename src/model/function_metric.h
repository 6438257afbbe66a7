#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "autotrain/metrics.h"

namespace autotrain {

/// A metric made of functions.
class FunctionMetric final : public PredictionMetric {
 public:
  using Measure = std::function<MetricState(const torch::Tensor& prediction, const torch::Tensor& target)>;
  using Read = std::function<std::vector<Figure>(const MetricState& whole)>;
  using Tables = std::function<std::vector<FigureTable>(const MetricState& whole)>;

  FunctionMetric(Measure measure, Read read, Tables tables = nullptr)
      : measure_(std::move(measure)), read_(std::move(read)), tables_(std::move(tables)) {}

  MetricState measure(const torch::Tensor& prediction, const torch::Tensor& target) const override {
    return measure_(prediction, target);
  }
  std::vector<Figure> figures(const MetricState& whole) const override { return read_(whole); }
  std::vector<FigureTable> tables(const MetricState& whole) const override {
    return tables_ ? tables_(whole) : std::vector<FigureTable>{};
  }

 private:
  Measure measure_;
  Read read_;
  Tables tables_;
};

/// The kind of figures that are shares of samples and should be large.
inline FigureKind share_to_raise() {
  return {.better = Better::kHigher, .share = true};
}

/// How many elements are true, in float64.
inline torch::Tensor count_true(const torch::Tensor& mask) {
  return mask.sum(torch::kFloat64);
}

/// A state of sums alone, in float64.
inline MetricState sums_of(std::vector<torch::Tensor> sums) {
  for (torch::Tensor& sum : sums) sum = sum.to(torch::kFloat64);
  return {.sums = std::move(sums)};
}

}  // namespace autotrain
