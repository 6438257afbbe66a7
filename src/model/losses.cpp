#include "model/losses.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <stdexcept>

#include "autotrain/error.h"
#include "base/text.h"
#include "model/function_metric.h"
#include "model/metrics.h"

namespace autotrain {
namespace {

// ------------------------------------------------------------------ targets

// [n, …] class indices of any integers as one row of int64.
torch::Tensor flat_classes(const torch::Tensor& target) {
  if (!target.is_floating_point()) return target.reshape({-1}).to(torch::kInt64);
  throw Error(ExitCode::kBadData, "cross_entropy", "targets are numbers to be predicted, not classes",
              "set loss.name: mean_squared_error, or give the data integer targets");
}

// Labels in float32, of the prediction's shape. One label for every pixel may stand without its dimension of
// one.
torch::Tensor labels(const torch::Tensor& prediction, const torch::Tensor& target) {
  if (target.sizes() == prediction.sizes()) return target.to(torch::kFloat32);
  if (target.dim() > 2 && target.dim() + 1 == prediction.dim() &&
      target.unsqueeze(1).sizes() == prediction.sizes())
    return target.unsqueeze(1).to(torch::kFloat32);
  if (target.dim() > 3 && target.dim() == prediction.dim() + 1 &&
      target.sizes() == prediction.unsqueeze(1).sizes())
    return target.squeeze(1).to(torch::kFloat32);
  throw Error(ExitCode::kBadData, "binary_cross_entropy",
              cat("predictions are ", prediction.sizes(), " and targets ", target.sizes()),
              "targets need a 0 or 1 for every label; for one class a sample set loss.name: cross_entropy");
}

// A sum over all elements, each of weight 1.
LossTerms per_element(const torch::Tensor& sum, int64_t elements) {
  return {sum, at::full({}, static_cast<double>(elements),
                        sum.options().dtype(torch::kFloat64).requires_grad(false))};
}

// One number a class, on the device of the first tensor that asks.
class ClassWeights {
 public:
  ClassWeights(const char* key, const std::vector<double>& weights)
      : key_(key), weights_(torch::tensor(weights, torch::kFloat32)) {}

  /// Undefined when there are none: every class counts 1.
  torch::Tensor on(const torch::Tensor& logits) {
    if (weights_.numel() == 0) return {};
    if (weights_.numel() != logits.size(-1)) {
      throw Error(ExitCode::kBadRecipe, key_,
                  cat("has ", weights_.numel(), " numbers; there are ", logits.size(-1), " classes"),
                  "give one for each class");
    }
    if (weights_.device() != logits.device()) weights_ = weights_.to(logits.device(), /*non_blocking=*/true);
    return weights_;
  }

 private:
  const char* key_;
  torch::Tensor weights_;  // [K]
};

// ------------------------------------------------------------------ cross-entropy

// The class weight of each target; an ignored one may be any number.
torch::Tensor weights_of(const torch::Tensor& targets, const torch::Tensor& weights) {
  return weights.index_select(0, targets.clamp(0, weights.size(0) - 1));
}

// Σ w·(1 − p)^γ·(−log p) of the true classes' probabilities p: Lin et al. 2017, arXiv:1708.02002.
torch::Tensor focal_sum(const torch::Tensor& logits, const torch::Tensor& targets,
                        const torch::Tensor& weights, double gamma, int64_t ignore_index) {
  const torch::Tensor entropy =
      at::cross_entropy_loss(logits, targets, {}, at::Reduction::None, ignore_index);
  // Where p is 1 the power's slope may be infinite; so small a base changes no sum.
  const torch::Tensor miss = (-at::expm1(-entropy)).clamp_min(1e-12);
  torch::Tensor terms = miss.pow(gamma) * entropy;  // 0 where the target is ignored
  if (weights.defined()) terms = terms * weights_of(targets, weights);
  return terms.sum();
}

// Σ of the counted targets' class weights.
torch::Tensor weight_of(const torch::Tensor& targets, const torch::Tensor& weights, int64_t ignore_index) {
  const torch::Tensor counted = targets != ignore_index;
  if (!weights.defined()) return count_true(counted);
  return (weights_of(targets, weights).to(torch::kFloat64) * counted).sum();
}

// What `summed` gives; on a CPU the kernel itself finds classes that the model does not predict.
template <class Summed>
torch::Tensor of_known_classes(Summed summed, const torch::Tensor& targets, int64_t classes,
                               int64_t ignore_index) {
  try {
    return summed();
  } catch (const c10::IndexError&) {
    const torch::Tensor counted = targets.masked_select(targets != ignore_index);
    throw Error(ExitCode::kBadData, "cross_entropy",
                cat("targets are from ", counted.min().item<int64_t>(), " to ", counted.max().item<int64_t>(),
                    ", and the model predicts ", classes, " classes, counted from 0"),
                "take a model that predicts them all; a value that is no class is loss.ignore_index");
  }
}

// Of one class the softmax is 1 whatever the logit is.
void check_several_classes(const torch::Tensor& logits) {
  if (logits.size(1) > 1) return;
  throw Error(ExitCode::kBadData, "cross_entropy",
              "the model predicts one class only, so that the loss is 0 whatever it has learned",
              "give data of several classes; a model with one output for yes or no learns by loss.name: "
              "binary_cross_entropy");
}

LossTerms cross_entropy_terms(const CrossEntropyOptions& o, ClassWeights& class_weights,
                              const torch::Tensor& prediction, const torch::Tensor& target) {
  const torch::Tensor targets = flat_classes(target);
  const torch::Tensor logits = flat_logits(prediction, target).to(torch::kFloat32);
  check_several_classes(logits);
  const torch::Tensor weights = class_weights.on(logits);
  const auto summed = [&] {
    return o.focal_gamma > 0 ? focal_sum(logits, targets, weights, o.focal_gamma, o.ignore_index)
                             : at::cross_entropy_loss(logits, targets, weights, at::Reduction::Sum,
                                                      o.ignore_index, o.label_smoothing);
  };
  const torch::Tensor sum = of_known_classes(summed, targets, logits.size(1), o.ignore_index);
  return {sum, weight_of(targets, weights, o.ignore_index)};
}

// ------------------------------------------------------------------ rows

// The metrics of a loss when the recipe names none.
PredictionMetrics default_metrics(TargetKind kind, int64_t ignore_index = -100) {
  const MetricOptions options{.kind = kind, .ignore_index = ignore_index};
  switch (kind) {
    case TargetKind::kClasses:
      return {make_metric("accuracy", options), make_metric("top5", options), sequence_perplexity(options),
              dense_iou(options)};
    case TargetKind::kLabels:
      return {make_metric("label_accuracy", options), make_metric("macro_f1", options)};
    case TargetKind::kNumbers: return {make_metric("mean_absolute_error", options)};
  }
  return {};
}

LossRow cross_entropy_row() {
  return {{"cross_entropy",
           "Softmax cross-entropy over classes, summed over targets that are not ignored.",
           {real_key("label_smoothing", "Share of the target spread evenly over all classes.", 0.0)
                .from(0, 0.999),
            integer_key("ignore_index", "Targets of this value count for nothing.", -100)
                .from(-KeySpec::kLargest),
            list_key(KeyKind::kRealList, "class_weights",
                     "How much a target of each class counts, in the sum and in the weight; null: 1.")
                .from(0, 1e9),
            real_key("focal_gamma", "Exponent of the focal loss: above 0 well-classified targets count less.",
                     0.0)
                .from(0, 100)}},
          [](const Parameters& p) {
            return cross_entropy({.label_smoothing = p.real("label_smoothing"),
                                  .ignore_index = p.integer("ignore_index"),
                                  .class_weights = p.reals("class_weights"),
                                  .focal_gamma = p.real("focal_gamma")});
          },
          [](const Parameters& p) {
            return MetricOptions{.kind = TargetKind::kClasses, .ignore_index = p.integer("ignore_index")};
          }};
}

// ------------------------------------------------------------------ the model's own

std::optional<TargetKind> targets_of(const Parameters& p) {
  const std::string targets = p.text("targets");
  if (targets == "classes") return TargetKind::kClasses;
  if (targets == "labels") return TargetKind::kLabels;
  if (targets == "numbers") return TargetKind::kNumbers;
  return std::nullopt;
}

Loss models_own(const Parameters& p) {
  const auto never = [](const torch::Tensor&, const torch::Tensor&) -> LossTerms {
    throw std::logic_error("the loss of the model itself is asked of the model");
  };
  const std::optional<TargetKind> kind = targets_of(p);
  return {never, kind ? default_metrics(*kind, p.integer("ignore_index")) : PredictionMetrics()};
}

MetricOptions models_own_metrics(const Parameters& p) {
  const std::optional<TargetKind> kind = targets_of(p);
  if (kind) return {.kind = *kind, .ignore_index = p.integer("ignore_index")};
  throw Error(ExitCode::kBadRecipe, "loss.targets",
              "is not set: the model computes its loss itself, and does not say what its targets are",
              "set it to classes, labels or numbers");
}

LossRow models_own_row() {
  return {
      {kModelsOwnLoss,
       "The loss that the model computes itself from its inputs and the targets, of a module from PyTorch: "
       "the mean over the samples of a batch, or their sum. A batch weighs as many as it has samples.",
       {word_key("targets",
                 "What the targets are, for metrics of what the model predicts beside its loss; null: the "
                 "loss alone is measured.",
                 {"classes", "labels", "numbers"}),
        integer_key("ignore_index", "Classes of this value count for nothing in metrics.", -100)
            .from(-KeySpec::kLargest)}},
      models_own,
      models_own_metrics};
}

MetricOptions labels_metrics(const Parameters&) {
  return {.kind = TargetKind::kLabels};
}

MetricOptions numbers_metrics(const Parameters&) {
  return {.kind = TargetKind::kNumbers};
}

}  // namespace

Loss cross_entropy(CrossEntropyOptions o) {
  if (o.focal_gamma > 0 && o.label_smoothing > 0) {
    throw Error(ExitCode::kBadRecipe, "loss.label_smoothing", "does not go with loss.focal_gamma",
                "set one of them to 0");
  }
  const auto weights = std::make_shared<ClassWeights>("loss.class_weights", o.class_weights);
  return {[o, weights](const torch::Tensor& prediction, const torch::Tensor& target) {
            return cross_entropy_terms(o, *weights, prediction, target);
          },
          default_metrics(TargetKind::kClasses, o.ignore_index)};
}

Loss binary_cross_entropy(std::vector<double> positive_weights) {
  const auto weights = std::make_shared<ClassWeights>("loss.positive_weights", positive_weights);
  return {[weights](const torch::Tensor& prediction, const torch::Tensor& target) {
            const torch::Tensor logits = prediction.to(torch::kFloat32);
            return per_element(at::binary_cross_entropy_with_logits(logits, labels(prediction, target), {},
                                                                    weights->on(logits), at::Reduction::Sum),
                               prediction.numel());
          },
          default_metrics(TargetKind::kLabels)};
}

Loss mean_squared_error() {
  return {[](const torch::Tensor& prediction, const torch::Tensor& target) {
            const torch::Tensor wanted = regression_target(prediction, target);
            return per_element(at::mse_loss(prediction.to(torch::kFloat32), wanted, at::Reduction::Sum),
                               prediction.numel());
          },
          default_metrics(TargetKind::kNumbers)};
}

Loss huber(double delta) {
  return {[delta](const torch::Tensor& prediction, const torch::Tensor& target) {
            const torch::Tensor wanted = regression_target(prediction, target);
            return per_element(
                at::huber_loss(prediction.to(torch::kFloat32), wanted, at::Reduction::Sum, delta),
                prediction.numel());
          },
          default_metrics(TargetKind::kNumbers)};
}

namespace {

std::vector<LossRow>& all_loss_table() {
  static std::vector<LossRow> table = {
      cross_entropy_row(),
      {{"binary_cross_entropy",
        "Sigmoid cross-entropy of several labels a sample, each 0 or 1, averaged over samples and labels.",
        {list_key(KeyKind::kRealList, "positive_weights",
                  "How much a label that holds counts beside one that does not; one number a label; null: 1.")
             .from(0, 1e9)}},
       [](const Parameters& p) { return binary_cross_entropy(p.reals("positive_weights")); },
       labels_metrics},
      {{"mean_squared_error", "Squared difference of prediction and target, averaged over elements."},
       [](const Parameters&) { return mean_squared_error(); },
       numbers_metrics},
      {{"huber",
        "Half the squared difference where it is below delta, linear beyond, averaged over elements.",
        {real_key("delta", "Difference from which on it is linear.", 1.0).above(0, 1e9)}},
       [](const Parameters& p) { return huber(p.real("delta")); },
       numbers_metrics},
      detection_row(),
      yolo_loss_row(),
      models_own_row()};
  return table;
}

}  // namespace

const std::vector<LossRow>& loss_table() {
  return all_loss_table();
}

void add_row(LossRow row) {
  all_loss_table().push_back(std::move(row));
}

const LossRow& find_loss(const std::string& name) {
  const auto& rows = loss_table();
  const auto row = std::ranges::find_if(rows, [&](const LossRow& each) { return each.spec.name == name; });
  if (row != rows.end()) return *row;
  throw Error(ExitCode::kBadRecipe, "loss.name", "there is no loss named " + name);
}

std::optional<MetricOptions> targets_of_loss(const Choice& choice) {
  const LossRow& row = find_loss(choice.name);
  const Parameters parameters(choice, row.spec);
  if (!row.metric_options || (choice.name == kModelsOwnLoss && !targets_of(parameters))) return std::nullopt;
  return row.metric_options(parameters);
}

torch::Tensor counted_targets(const Choice& choice, const torch::Tensor& targets) {
  if (choice.name != "cross_entropy" || !targets.defined() || targets.is_floating_point()) return {};
  const Parameters p(choice, find_loss(choice.name).spec);
  torch::Tensor counted = targets != p.integer("ignore_index");
  const std::vector<double> weights = p.reals("class_weights");
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] == 0) counted = counted.logical_and(targets != static_cast<int64_t>(i));
  }
  return counted;
}

std::string what_does_not_count(const Choice& choice) {
  if (choice.name != "cross_entropy") return "the loss gives them no weight";
  const Parameters p(choice, find_loss(choice.name).spec);
  const std::vector<double> weights = p.reals("class_weights");
  std::vector<std::string> none;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] == 0) none.push_back(std::to_string(i));
  }
  const std::string ignored = cat("loss.ignore_index ", p.integer("ignore_index"));
  if (none.empty()) return ignored;
  return cat(ignored, ", and loss.class_weights of 0 for class ", join(none, ", "));
}

Loss make_loss(const Choice& choice, const std::optional<std::vector<std::string>>& metrics) {
  const LossRow& row = find_loss(choice.name);
  const Parameters parameters(choice, row.spec);
  Loss loss = row.make(parameters);
  if (!metrics) return loss;
  if (!row.metric_options) {
    throw Error(ExitCode::kBadRecipe, "evaluation.metrics", "are fixed for loss " + choice.name,
                "leave evaluation.metrics out");
  }
  loss.metrics.clear();
  for (auto name = metrics->begin(); name != metrics->end(); ++name) {
    if (std::find(metrics->begin(), name, *name) != name) {
      throw Error(ExitCode::kBadRecipe, "evaluation.metrics", quote(*name) + " stands twice", "name it once");
    }
    loss.metrics.push_back(make_metric(*name, row.metric_options(parameters)));
  }
  return loss;
}

}  // namespace autotrain
