#include "model/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "autotrain/error.h"
#include "base/text.h"
#include "model/function_metric.h"

namespace autotrain {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
constexpr int64_t kMostClassesListed = 100;  // more figures, or cells, than anybody looks at
constexpr int64_t kCalibrationBins = 15;     // as in Guo et al. 2017, arXiv:1706.04599

std::vector<double> numbers_of(const torch::Tensor& tensor) {
  const torch::Tensor flat = tensor.to(torch::kCPU, torch::kFloat64).contiguous().flatten();
  return {flat.const_data_ptr<double>(), flat.const_data_ptr<double>() + flat.numel()};
}

// The figure Σ sum ÷ Σ weight of a state {sum, weight}.
Figure mean_of(const std::string& name, FigureKind kind, const MetricState& whole, double (*shape)(double)) {
  const double mean = whole.sums.at(0).item<double>() / whole.sums.at(1).item<double>();
  return {name, shape(mean), std::move(kind)};
}

double as_it_is(double value) {
  return value;
}

std::shared_ptr<const PredictionMetric> mean_metric(std::string name, FigureKind kind,
                                                    FunctionMetric::Measure measure,
                                                    double (*shape)(double) = as_it_is) {
  return std::make_shared<FunctionMetric>(std::move(measure), [=](const MetricState& whole) {
    return std::vector<Figure>{mean_of(name, kind, whole, shape)};
  });
}

// ------------------------------------------------------------------ classes

// Logits and classes, one row a target, and which of them count.
struct Classified {
  Classified(const torch::Tensor& prediction, const torch::Tensor& target, int64_t ignore_index)
      : logits(flat_logits(prediction, target)),
        truth(target.reshape({-1})),
        counts(truth != ignore_index),
        samples(prediction.size(0)) {}

  torch::Tensor number_counted() const { return counts.sum(torch::kFloat64); }

  // 1 of each that counts, which is not a number where its prediction is none: what is summed is none then.
  // @param deciding the largest logits, which kernels take one that is not a number for: [n, k].
  torch::Tensor weight(const torch::Tensor& deciding) const {
    const torch::Tensor none = deciding.isnan().any(1).logical_and_(counts);
    return counts.to(torch::kFloat64).masked_fill_(none, kUnknown);
  }
  torch::Tensor number_of_samples() const {
    return at::full({}, samples, counts.options().dtype(torch::kFloat64));
  }

  torch::Tensor logits;  // [n, K]
  torch::Tensor truth;   // [n]
  torch::Tensor counts;  // [n] bool
  int64_t samples;       // of one target each: n
};

// What is chosen of each row, and how much that counts.
struct Choices {
  explicit Choices(const Classified& c)
      : classes(c.logits.argmax(1)),
        weight(c.weight(c.logits.gather(1, classes.unsqueeze(1)))),
        right((classes == c.truth).to(torch::kFloat64) * weight) {}

  torch::Tensor classes;  // [n]
  torch::Tensor weight;   // [n] float64
  torch::Tensor right;    // likewise, 0 of the others
};

// Of a state {right, counted, samples}: a share of samples where each has one target that counts, as a class
// of its own, and else of tokens or pixels.
FigureKind share_of_targets(const MetricState& whole) {
  FigureKind kind = share_to_raise();
  kind.of_samples = whole.sums.at(1).item<double>() == whole.sums.at(2).item<double>();
  return kind;
}

std::shared_ptr<const PredictionMetric> accuracy(const std::string& name, const MetricOptions& o) {
  return std::make_shared<FunctionMetric>(
      [o](const torch::Tensor& prediction, const torch::Tensor& target) {
        const Classified c(prediction, target, o.ignore_index);
        return sums_of({Choices(c).right.sum(), c.number_counted(), c.number_of_samples()});
      },
      [name](const MetricState& whole) {
        return std::vector<Figure>{mean_of(name, share_of_targets(whole), whole, as_it_is)};
      });
}

// With no more classes than k the figure would always be 1, so it is left out.
std::shared_ptr<const PredictionMetric> top(const std::string& name, const MetricOptions& o) {
  const int64_t k = *top_of(name);
  return std::make_shared<FunctionMetric>(
      [o, k](const torch::Tensor& prediction, const torch::Tensor& target) {
        const Classified c(prediction, target, o.ignore_index);
        if (c.logits.size(1) <= k) return MetricState{};
        const auto [logits, best] = c.logits.topk(k, 1);
        const torch::Tensor right = (best == c.truth.unsqueeze(1)).any(1).to(torch::kFloat64);
        return sums_of({(right * c.weight(logits)).sum(), c.number_counted(), c.number_of_samples()});
      },
      [name](const MetricState& whole) {
        return std::vector<Figure>{mean_of(name, share_of_targets(whole), whole, as_it_is)};
      });
}

std::shared_ptr<const PredictionMetric> perplexity(const std::string& name, const MetricOptions& o) {
  return mean_metric(
      name, {.better = Better::kLower},
      [o](const torch::Tensor& prediction, const torch::Tensor& target) {
        const Classified c(prediction, target, o.ignore_index);
        return sums_of({at::cross_entropy_loss(c.logits.to(torch::kFloat32), c.truth.to(torch::kInt64), {},
                                               at::Reduction::Sum, o.ignore_index),
                        c.number_counted()});
      },
      [](double mean) { return std::exp(mean); });
}

// How far confidence and accuracy lie apart: Σ over bins of confidence, weighted by their samples.
std::shared_ptr<const PredictionMetric> calibration_error(const std::string& name, const MetricOptions& o) {
  return std::make_shared<FunctionMetric>(
      [o](const torch::Tensor& prediction, const torch::Tensor& target) {
        const Classified c(prediction, target, o.ignore_index);
        const auto [confidence, chosen] = at::softmax(c.logits.to(torch::kFloat64), 1).max(1);
        // A confidence that is not a number goes to any bin, whose sum it makes none.
        const torch::Tensor bin = ((confidence.nan_to_num() * kCalibrationBins).ceil() - 1)
                                      .clamp(0, kCalibrationBins - 1)
                                      .to(torch::kInt64);
        const torch::Tensor weight = c.counts.to(torch::kFloat64);
        const torch::Tensor right = (chosen == c.truth).to(torch::kFloat64) * weight;
        const torch::Tensor sums = at::zeros({2, kCalibrationBins}, weight.options());
        sums.index_add_(1, bin, at::stack({confidence * weight - right, weight}));
        return sums_of({sums});
      },
      [name](const MetricState& whole) {
        const double apart = whole.sums.at(0)[0].abs().sum().item<double>();
        return std::vector<Figure>{{name,
                                    apart / whole.sums.at(0)[1].sum().item<double>(),
                                    {.better = Better::kLower, .share = true}}};
      });
}

// [K, K]: how many of each class (row) were taken for each class (column). A prediction that is not a number
// takes them for none.
torch::Tensor confusion(const Classified& c) {
  const int64_t classes = c.logits.size(1);
  const Choices choices(c);
  const torch::Tensor weight = choices.weight.nan_to_num();
  const torch::Tensor cell = c.truth.clamp_min(0) * classes + choices.classes;
  return at::zeros({classes * classes}, weight.options())
      .index_add_(0, cell.clamp_max(classes * classes - 1), weight)
      .view({classes, classes});
}

std::vector<std::vector<double>> rows_of(const torch::Tensor& matrix) {
  std::vector<std::vector<double>> rows;
  for (const torch::Tensor& row : matrix.unbind(0)) rows.push_back(numbers_of(row));
  return rows;
}

void check_listed(const std::string& name, int64_t classes) {
  if (classes <= kMostClassesListed) return;
  throw Error(
      ExitCode::kBadRecipe, "evaluation.metrics",
      cat(name, " lists every class, and there are ", classes, "; it is for at most ", kMostClassesListed),
      "take macro_f1, macro_precision or macro_recall, which sum them up");
}

std::shared_ptr<const PredictionMetric> confusion_matrix(const std::string& name, const MetricOptions& o) {
  return std::make_shared<FunctionMetric>(
      [name, o](const torch::Tensor& prediction, const torch::Tensor& target) {
        const Classified c(prediction, target, o.ignore_index);
        check_listed(name, c.logits.size(1));
        return sums_of({confusion(c)});
      },
      [](const MetricState&) { return std::vector<Figure>{}; },
      [name](const MetricState& whole) {
        return std::vector<FigureTable>{{name, "true class", "predicted class", rows_of(whole.sums.at(0))}};
      });
}

// ------------------------------------------------------------------ precision and recall

// 1 where a label is predicted to hold and 0 where not, in float64.
torch::Tensor predicted_labels(const torch::Tensor& prediction) {
  return (prediction > 0).to(torch::kFloat64).masked_fill_(prediction.isnan(), kUnknown);
}

// [3, K] per class or label: right, predicted, true.
torch::Tensor class_counts(const torch::Tensor& prediction, const torch::Tensor& target,
                           const MetricOptions& o) {
  if (o.kind == TargetKind::kLabels) {
    const torch::Tensor predicted = label_rows(predicted_labels(prediction)),
                        truth = label_rows(target.reshape_as(prediction) > 0.5).to(torch::kFloat64);
    return at::stack({(predicted * truth).sum(0), predicted.sum(0), truth.sum(0)});
  }
  const Classified c(prediction, target, o.ignore_index);
  const Choices choices(c);
  const torch::Tensor truth = c.truth.clamp(0, c.logits.size(1) - 1);
  const torch::Tensor counts = at::zeros({3, c.logits.size(1)}, choices.weight.options());
  counts[0].index_add_(0, choices.classes, choices.right);
  counts[1].index_add_(0, choices.classes, choices.weight);
  counts[2].index_add_(0, truth, choices.weight);
  return counts;
}

struct ClassCounts {
  double right = 0, predicted = 0, true_ones = 0;

  bool known() const { return !std::isnan(predicted + true_ones); }  // all predictions are numbers
  bool occurs() const { return predicted + true_ones > 0; }
  double precision() const { return right / predicted; }  // NaN when it was never predicted
  double recall() const { return right / true_ones; }     // NaN when it never occurs
  double f1() const { return 2 * right / (predicted + true_ones); }
  double iou() const { return right / (predicted + true_ones - right); }
};

std::vector<ClassCounts> counts_of(const MetricState& whole) {
  const auto rows = rows_of(whole.sums.at(0));
  std::vector<ClassCounts> counts;
  for (size_t i = 0; i < rows[0].size(); ++i) counts.push_back({rows[0][i], rows[1][i], rows[2][i]});
  return counts;
}

// The mean follows scikit-learn: it is taken over the classes that occur in the data or in the predictions,
// and a figure that cannot be told counts as 0.
double macro_mean(const std::vector<ClassCounts>& counts, TargetKind kind,
                  double (ClassCounts::*figure)() const) {
  double sum = 0, classes = 0;
  for (const ClassCounts& c : counts) {
    if (!c.known()) return kUnknown;
    if (!c.occurs() && kind == TargetKind::kClasses) continue;
    const double value = (c.*figure)();
    sum += std::isnan(value) ? 0 : value;
    classes += 1;
  }
  return classes > 0 ? sum / classes : kUnknown;
}

double micro_f1(const std::vector<ClassCounts>& counts) {
  ClassCounts all;
  for (const ClassCounts& c : counts) {
    all.right += c.right;
    all.predicted += c.predicted;
    all.true_ones += c.true_ones;
  }
  return all.f1();
}

std::shared_ptr<const PredictionMetric> of_counts(const MetricOptions& o, FunctionMetric::Read read) {
  return std::make_shared<FunctionMetric>(
      [o](const torch::Tensor& prediction, const torch::Tensor& target) {
        return sums_of({class_counts(prediction, target, o)});
      },
      std::move(read));
}

MetricRow macro_row(std::string name, std::string sentence, double (ClassCounts::*figure)() const) {
  return {{std::move(name), std::move(sentence)},
          {TargetKind::kClasses, TargetKind::kLabels},
          [figure](const std::string& metric, const MetricOptions& o) {
            return of_counts(o, [=](const MetricState& whole) {
              return std::vector<Figure>{
                  {metric, macro_mean(counts_of(whole), o.kind, figure), share_to_raise()}};
            });
          }};
}

std::shared_ptr<const PredictionMetric> per_class(const std::string& name, const MetricOptions& o) {
  return std::make_shared<FunctionMetric>(
      [name, o](const torch::Tensor& prediction, const torch::Tensor& target) {
        const torch::Tensor counts = class_counts(prediction, target, o);
        check_listed(name, counts.size(-1));
        return sums_of({counts});
      },
      [](const MetricState& whole) {
        const std::vector<ClassCounts> counts = counts_of(whole);
        std::vector<Figure> figures;
        for (size_t i = 0; i < counts.size(); ++i) {
          figures.push_back({cat("precision.", i), counts[i].precision(), share_to_raise()});
          figures.push_back({cat("recall.", i), counts[i].recall(), share_to_raise()});
        }
        return figures;
      });
}

std::shared_ptr<const PredictionMetric> label_accuracy(const std::string& name, const MetricOptions&) {
  return mean_metric(
      name, share_to_raise(), [](const torch::Tensor& prediction, const torch::Tensor& target) {
        const torch::Tensor truth = (target.reshape_as(prediction) > 0.5).to(torch::kFloat64);
        const torch::Tensor wrong = (predicted_labels(prediction) - truth).abs().sum();
        const torch::Tensor all = at::full({}, static_cast<double>(truth.numel()), truth.options());
        return sums_of({all - wrong, all});
      });
}

// ------------------------------------------------------------------ numbers

std::shared_ptr<const PredictionMetric> mean_error(const std::string& name,
                                                   torch::Tensor (*size)(const torch::Tensor&)) {
  return mean_metric(
      name, {.better = Better::kLower}, [size](const torch::Tensor& prediction, const torch::Tensor& target) {
        const torch::Tensor difference =
            prediction.to(torch::kFloat32) - regression_target(prediction, target);
        const torch::Tensor sum = size(difference).sum(torch::kFloat64);
        return sums_of({sum, at::full({}, static_cast<double>(prediction.numel()), sum.options())});
      });
}

// Two parts of float64 numbers that add up to them: the upper one has all but `low` of the 53 bits, so that
// sums of many such have no rounding (Veltkamp 1968; Dekker 1971).
std::pair<torch::Tensor, torch::Tensor> halves(const torch::Tensor& x, int low) {
  const torch::Tensor shifted = x * (std::exp2(low) + 1), upper = shifted - (shifted - x);
  return {upper, x - upper};
}

// Sums of numbers y and of their squares, each in two parts, from which their spread about the mean is right
// where it is tiny beside the mean: [4, K] of [n, K].
torch::Tensor sums_for_spread(const torch::Tensor& y) {
  const auto [high, low] = halves(y, 27);
  const auto [square, rest] = halves(high * high, 29);  // which is exact
  return at::stack({high.sum(0), low.sum(0), square.sum(0), (rest + 2 * high * low + low * low).sum(0)});
}

struct Spread {
  double about_mean = 0;  // Σ(y − ȳ)²
  double squares = 0;     // Σy²

  // Numbers of 24 bits of which one differs by its last have 2⁻⁴⁸ ÷ n.
  bool none() const { return about_mean <= std::exp2(-85) * squares; }
};

Spread spread_of(double n, const std::vector<double>& sums) {
  const double sum = sums[0] + sums[1], rest = sums[1] - (sum - sums[0]);
  const double square = sum * sum, lost = std::fma(sum, sum, -square) + 2 * sum * rest;
  const double mean = square / n,
               of_mean = (std::fma(-mean, n, square) + lost) / n;  // (Σy)² ÷ n in two parts
  return {(sums[2] - mean) + (sums[3] - of_mean), sums[2] + sums[3]};
}

// Of a constant target there is no variance to explain. As in scikit-learn it counts 1 when all predictions
// are right, else 0.
double explained(double error, const Spread& spread) {
  if (!spread.none()) return 1 - error / spread.about_mean;
  return std::isnan(error) ? error : error == 0 ? 1 : 0;
}

// 1 − Σ(y − ŷ)² ÷ Σ(y − ȳ)² of each output, averaged over outputs.
std::shared_ptr<const PredictionMetric> r2(const std::string& name, const MetricOptions&) {
  return std::make_shared<FunctionMetric>(
      [](const torch::Tensor& prediction, const torch::Tensor& target) {
        const int64_t n = prediction.size(0);
        const torch::Tensor truth =
            regression_target(prediction, target).to(torch::kFloat64).reshape({n, -1});
        const torch::Tensor error = prediction.to(torch::kFloat64).reshape({n, -1}) - truth;
        return sums_of({error.square().sum(0), sums_for_spread(truth),
                        at::full({}, static_cast<double>(n), truth.options())});
      },
      [name](const MetricState& whole) {
        const std::vector<double> errors = numbers_of(whole.sums.at(0));
        const auto sums = rows_of(whole.sums.at(1).t());
        const double n = whole.sums.at(2).item<double>();
        double all = 0;
        for (size_t i = 0; i < errors.size(); ++i) all += explained(errors[i], spread_of(n, sums[i]));
        const double value = all / static_cast<double>(errors.size());
        return std::vector<Figure>{
            {name, std::isfinite(value) ? value : kUnknown, {.better = Better::kHigher}}};
      });
}

// ------------------------------------------------------------------ the table

std::vector<MetricRow> class_rows() {
  using K = TargetKind;
  return {
      {{"accuracy", "Share of targets whose class has the largest logit."}, {K::kClasses}, accuracy},
      {{"topK", "Share whose class is among the K largest logits: top5; left out of K classes or fewer."},
       {K::kClasses},
       top},
      macro_row("macro_precision", "Precision, averaged over classes or labels.", &ClassCounts::precision),
      macro_row("macro_recall", "Recall, averaged over classes or labels.", &ClassCounts::recall),
      macro_row("macro_f1", "F1, averaged over classes or labels.", &ClassCounts::f1),
      macro_row("mean_iou", "Intersection over union, averaged over classes or labels.", &ClassCounts::iou),
      {{"micro_f1", "F1 of all decisions together."},
       {K::kClasses, K::kLabels},
       [](const std::string& name, const MetricOptions& o) {
         return of_counts(o, [name](const MetricState& whole) {
           return std::vector<Figure>{{name, micro_f1(counts_of(whole)), share_to_raise()}};
         });
       }},
      {{"per_class", "precision.C and recall.C of every class or label C."},
       {K::kClasses, K::kLabels},
       per_class},
      {{"perplexity", "exp of the mean cross-entropy."}, {K::kClasses}, perplexity},
      {{"calibration_error", "Mean distance of confidence and accuracy, in 15 bins of confidence."},
       {K::kClasses},
       calibration_error},
      {{"confusion_matrix",
        "How often each class was taken for each: a table in summary.json and on the page."},
       {K::kClasses},
       confusion_matrix},
      {{"label_accuracy", "Share of labels that are decided rightly."}, {K::kLabels}, label_accuracy}};
}

std::vector<MetricRow> number_rows() {
  using K = TargetKind;
  return {{{"mean_absolute_error", "Mean |prediction − target|."},
           {K::kNumbers},
           [](const std::string& name, const MetricOptions&) {
             return mean_error(name, [](const torch::Tensor& d) { return d.abs(); });
           }},
          {{"mean_squared_error", "Mean (prediction − target)²."},
           {K::kNumbers},
           [](const std::string& name, const MetricOptions&) {
             return mean_error(name, [](const torch::Tensor& d) { return d.square(); });
           }},
          {{"r2", "Share of the targets' variance that is explained, averaged over outputs."},
           {K::kNumbers},
           r2}};
}

std::vector<MetricRow> all_rows() {
  std::vector<MetricRow> rows = class_rows();
  for (MetricRow& row : ranking_rows()) rows.push_back(std::move(row));
  for (MetricRow& row : number_rows()) rows.push_back(std::move(row));
  return rows;
}

const MetricRow* find_metric(const std::string& name) {
  for (const MetricRow& row : metric_table()) {
    if (row.spec.name == "topK" ? top_of(name).has_value() : row.spec.name == name) return &row;
  }
  return nullptr;
}

bool goes_with(const MetricRow& row, TargetKind kind) {
  return std::find(row.kinds.begin(), row.kinds.end(), kind) != row.kinds.end();
}

std::vector<std::string> names_for(TargetKind kind) {
  std::vector<std::string> names;
  for (const MetricRow& row : metric_table()) {
    if (goes_with(row, kind)) names.push_back(row.spec.name);
  }
  return names;
}

// The shape of targets, [n, …], without a dimension of one that the prediction has its classes in.
std::vector<int64_t> positions_of(const torch::Tensor& prediction, const torch::Tensor& target) {
  std::vector<int64_t> sizes = target.sizes().vec();
  if (target.dim() != prediction.dim() || target.dim() < 2) return sizes;
  if (sizes[1] == 1) {
    sizes.erase(sizes.begin() + 1);
  } else if (sizes.back() == 1) {
    sizes.pop_back();
  }
  return sizes;
}

[[noreturn]] void fail_logits(const torch::Tensor& prediction, const torch::Tensor& target,
                              const std::string& why, const std::string& cure) {
  throw Error(ExitCode::kBadData, "cross_entropy",
              cat("predictions are ", prediction.sizes(), " and targets ", target.sizes(), ", ", why), cure);
}

}  // namespace

std::vector<FigureTable> Metric::tables(const MetricState&) const {
  return {};
}

Measured mean_figure(const std::string& name, FigureKind kind, const torch::Tensor& sum,
                     const torch::Tensor& weight) {
  return {mean_metric(name, std::move(kind), nullptr), sums_of({sum, weight})};
}

std::shared_ptr<const PredictionMetric> sequence_perplexity(const MetricOptions& options) {
  const auto whole = perplexity("perplexity", options);
  return std::make_shared<FunctionMetric>(
      [whole](const torch::Tensor& prediction, const torch::Tensor& target) {
        return prediction.dim() == 3 ? whole->measure(prediction, target) : MetricState{};
      },
      [whole](const MetricState& state) { return whole->figures(state); });
}

std::vector<Measured> measured(const PredictionMetrics& metrics, const torch::Tensor& prediction,
                               const torch::Tensor& target) {
  std::vector<Measured> all;
  for (const auto& metric : metrics) all.push_back({metric, metric->measure(prediction, target)});
  return all;
}

std::shared_ptr<const PredictionMetric> dense_iou(const MetricOptions& options) {
  const auto whole = make_metric("mean_iou", options);
  return std::make_shared<FunctionMetric>(
      [whole](const torch::Tensor& prediction, const torch::Tensor& target) {
        return prediction.dim() > 3 ? whole->measure(prediction, target) : MetricState{};
      },
      [whole](const MetricState& state) { return whole->figures(state); });
}

torch::Tensor label_rows(const torch::Tensor& labels) {
  return labels.dim() < 4 ? labels.reshape({labels.size(0), -1})
                          : labels.movedim(1, -1).reshape({-1, labels.size(1)});
}

torch::Tensor flat_logits(const torch::Tensor& prediction, const torch::Tensor& target) {
  const auto rows = [](const torch::Tensor& logits) { return logits.reshape({-1, logits.size(-1)}); };
  const std::vector<int64_t> wanted = positions_of(prediction, target);
  std::vector<int64_t> but_second = prediction.sizes().vec(), but_last = but_second;
  but_last.pop_back();
  if (prediction.dim() > 2) but_second.erase(but_second.begin() + 1);
  const bool last = but_last == wanted, second = prediction.dim() > 2 && but_second == wanted;
  if (last && second && prediction.dim() > 3) {
    fail_logits(prediction, target, "and the classes may be the second dimension or the last",
                "take a size of samples that is not the number of classes");
  }
  if (second && !last) return rows(prediction.movedim(1, -1));
  if (last || (prediction.dim() == 2 && prediction.size(0) == target.numel())) return rows(prediction);
  fail_logits(prediction, target, "which go together in no way",
              "targets need one class for each row of logits that the model predicts, whose classes are the "
              "last dimension or the second; of one-hot targets save array.argmax(1)");
}

torch::Tensor regression_target(const torch::Tensor& prediction, const torch::Tensor& target) {
  const bool indices = !target.is_floating_point() && target.dim() + 1 == prediction.dim();
  const torch::Tensor wanted = indices ? at::one_hot(target, prediction.size(-1)) : target;
  if (wanted.sizes() != prediction.sizes()) {
    throw Error(ExitCode::kBadData, "targets",
                cat("predictions are ", prediction.sizes(), " and targets ", target.sizes()),
                "targets need the predictions' shape, or class indices");
  }
  return wanted.to(torch::kFloat32);
}

namespace {

std::vector<MetricRow>& all_metric_table() {
  static std::vector<MetricRow> table = all_rows();
  return table;
}

}  // namespace

const std::vector<MetricRow>& metric_table() {
  return all_metric_table();
}

void add_row(MetricRow row) {
  all_metric_table().push_back(std::move(row));
}

std::shared_ptr<const PredictionMetric> make_metric(const std::string& name, const MetricOptions& options) {
  const MetricRow* const row = find_metric(name);
  const std::vector<std::string> names = names_for(options.kind);
  if (row != nullptr && goes_with(*row, options.kind)) return row->make(name, options);
  throw Error(ExitCode::kBadRecipe, "evaluation.metrics",
              cat(quote(name), row == nullptr ? " is not a metric" : " does not go with this loss's targets"),
              "one of " + join_choices(names));
}

}  // namespace autotrain
