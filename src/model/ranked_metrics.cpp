#include <cmath>

#include "autotrain/error.h"
#include "base/text.h"
#include "base/units.h"
#include "model/function_metric.h"
#include "model/metrics.h"
#include "model/ranking.h"

namespace autotrain {
namespace {

constexpr int64_t kBins = 1000;

// Scores that rise with the probability of each class or label, which of them are true, and which rows count.
struct Scored {
  torch::Tensor scores;  // [n, K] float32
  torch::Tensor truth;   // [n, K] bool
  torch::Tensor counts;  // [n] bool
};

// With two classes the second is the positive one, as for scikit-learn; with more, each is held against the
// rest.
Scored scored_classes(const torch::Tensor& prediction, const torch::Tensor& target, int64_t ignore_index) {
  const torch::Tensor truth = target.reshape({-1, 1});
  const torch::Tensor shares = at::softmax(flat_logits(prediction, target).to(torch::kFloat32), 1);
  const torch::Tensor of_class = truth == at::arange(shares.size(1), truth.options()).unsqueeze(0);
  const int64_t first = shares.size(1) == 2 ? 1 : 0;
  return {shares.slice(1, first), of_class.slice(1, first), (truth != ignore_index).squeeze(1)};
}

Scored scored(const torch::Tensor& prediction, const torch::Tensor& target, const MetricOptions& o) {
  if (o.kind == TargetKind::kLabels) {
    const torch::Tensor scores = label_rows(at::sigmoid(prediction.to(torch::kFloat32)));
    return {scores, label_rows(target.reshape_as(prediction) > 0.5),
            at::ones({scores.size(0)}, target.options().dtype(torch::kBool))};
  }
  return scored_classes(prediction, target, o.ignore_index);
}

// The mean over classes of what can be told of them.
template <class Of>
double mean_over(size_t classes, Of of) {
  double sum = 0, known = 0;
  for (size_t i = 0; i < classes; ++i) {
    const double value = of(i);
    if (std::isnan(value)) continue;
    sum += value;
    known += 1;
  }
  return sum / known;
}

// A column at a time: of many samples all of them together are large.
std::vector<Ranking> exact_rankings(const MetricState& whole) {
  const torch::Tensor counted = whole.rows.at(2).nonzero().squeeze(1);
  const auto n = static_cast<size_t>(counted.numel());
  std::vector<Ranking> rankings;
  for (int64_t i = 0; i < whole.rows.at(0).size(1); ++i) {
    const torch::Tensor scores = whole.rows[0].select(1, i).index_select(0, counted),
                        truth = whole.rows.at(1).select(1, i).index_select(0, counted).to(torch::kUInt8);
    rankings.push_back(rank({scores.const_data_ptr<float>(), n}, {truth.const_data_ptr<uint8_t>(), n}));
  }
  return rankings;
}

MetricRow exact_row(std::string name, std::string sentence, double Ranking::*figure) {
  return {{std::move(name), std::move(sentence)},
          {TargetKind::kClasses, TargetKind::kLabels},
          [figure](const std::string& metric, const MetricOptions& o) {
            return std::make_shared<FunctionMetric>(
                [o](const torch::Tensor& prediction, const torch::Tensor& target) {
                  const Scored s = scored(prediction, target, o);
                  return MetricState{.rows = {s.scores, s.truth, s.counts}};
                },
                [=](const MetricState& whole) {
                  const std::vector<Ranking> classes = exact_rankings(whole);
                  const double mean = mean_over(classes.size(), [&](size_t i) { return classes[i].*figure; });
                  return std::vector<Figure>{{metric, mean, share_to_raise()}};
                });
          }};
}

// [2, K, bins]: positives and negatives by score.
MetricState histogram(const std::string& metric, const Scored& s) {
  constexpr int64_t kMostClasses = 32'768;  // half a gigabyte
  const int64_t classes = s.scores.size(1);
  if (classes > kMostClasses) {
    throw Error(ExitCode::kBadRecipe, "evaluation.metrics",
                cat(metric, " counts in ", kBins, " bins of each class, and there are ",
                    format_count(classes), " of them"),
                "leave it out; top5 and perplexity are measured of so many classes");
  }
  const torch::Tensor bin = (s.scores.nan_to_num() * kBins).floor().clamp(0, kBins - 1).to(torch::kInt64);
  const torch::Tensor cell = at::arange(classes, bin.options()).unsqueeze(0) * kBins + bin +
                             s.truth.logical_not() * (classes * kBins);
  const torch::Tensor counts = at::zeros({2 * classes * kBins}, bin.options().dtype(torch::kFloat64));
  const torch::Tensor weight = s.counts.to(torch::kFloat64).unsqueeze(1).expand_as(cell);
  counts.index_add_(0, cell.flatten(), weight.flatten());
  return sums_of({counts.view({2, classes, kBins})});
}

std::vector<BinnedRanking> binned_rankings(const MetricState& whole) {
  const torch::Tensor counts = whole.sums.at(0).to(torch::kCPU).contiguous();
  const auto bins = static_cast<size_t>(counts.size(2));
  const auto row = [&](int64_t which, int64_t i) {
    return std::span(counts.const_data_ptr<double>() + which * counts.stride(0) + i * counts.stride(1), bins);
  };
  std::vector<BinnedRanking> rankings;
  for (int64_t i = 0; i < counts.size(1); ++i) rankings.push_back(rank_bins(row(0, i), row(1, i)));
  return rankings;
}

MetricRow binned_row(std::string name, std::string sentence, Bounded BinnedRanking::*figure) {
  return {{std::move(name), std::move(sentence)},
          {TargetKind::kClasses, TargetKind::kLabels},
          [figure](const std::string& metric, const MetricOptions& o) {
            return std::make_shared<FunctionMetric>(
                [metric, o](const torch::Tensor& prediction, const torch::Tensor& target) {
                  return histogram(metric, scored(prediction, target, o));
                },
                [=](const MetricState& whole) {
                  const std::vector<BinnedRanking> classes = binned_rankings(whole);
                  const auto mean = [&](double Bounded::*part) {
                    return mean_over(classes.size(), [&](size_t i) { return classes[i].*figure.*part; });
                  };
                  return std::vector<Figure>{
                      {metric, mean(&Bounded::value), share_to_raise()},
                      {metric + "_error", mean(&Bounded::error), {.better = Better::kLower, .share = true}}};
                });
          }};
}

}  // namespace

std::vector<MetricRow> ranking_rows() {
  return {
      exact_row(
          "roc_auc",
          "Area under the ROC curve, exact: of two classes the second's, of more or of labels the mean.",
          &Ranking::roc_auc),
      exact_row("average_precision", "Average precision, exact; classes and labels as for roc_auc.",
                &Ranking::average_precision),
      binned_row("roc_auc_binned",
                 "The same from 1,000 bins of scores, for data too many to keep their scores, and the most "
                 "by which it can be off.",
                 &BinnedRanking::roc_auc),
      binned_row("average_precision_binned", "The same for average precision.",
                 &BinnedRanking::average_precision)};
}

}  // namespace autotrain
