#include "model/losses.h"

#include "autotrain/error.h"
#include "base/text.h"

namespace autotrain {
namespace {

// [n, length, classes] as [n × length, classes]; the class dimension is last in both.
torch::Tensor flat_logits(const torch::Tensor& prediction) {
  return prediction.reshape({-1, prediction.size(-1)});
}

torch::Tensor count(const torch::Tensor& mask) {
  return mask.sum(torch::kFloat64);
}

torch::Tensor cross_entropy_sum(const torch::Tensor& logits, const torch::Tensor& targets,
                                double label_smoothing, int64_t ignore_index) {
  return at::cross_entropy_loss(logits.to(torch::kFloat32), targets, {}, at::Reduction::Sum, ignore_index,
                                label_smoothing);
}

// [n, …] class indices as one row.
torch::Tensor flat_classes(const torch::Tensor& target) {
  if (!target.is_floating_point()) return target.reshape({-1});
  throw Error(ExitCode::kBadData, "cross_entropy", "targets are numbers to be predicted, not classes",
              "set loss.name: mean_squared_error, or give the data integer targets");
}

// Class indices are compared as one-hot vectors; anything else must have the prediction's shape.
torch::Tensor regression_target(const torch::Tensor& prediction, const torch::Tensor& target) {
  const bool indices = !target.is_floating_point() && target.dim() + 1 == prediction.dim();
  const torch::Tensor wanted = indices ? at::one_hot(target, prediction.size(-1)) : target;
  if (wanted.sizes() != prediction.sizes()) {
    throw Error(ExitCode::kBadData, "mean_squared_error",
                cat("predictions are ", prediction.sizes(), " and targets ", target.sizes()),
                "targets need the predictions' shape, or class indices");
  }
  return wanted.to(torch::kFloat32);
}

std::vector<MetricTerms> mean_absolute_error(const torch::Tensor& prediction, const torch::Tensor& target) {
  const torch::Tensor difference = prediction.to(torch::kFloat32) - regression_target(prediction, target);
  const auto elements = static_cast<double>(prediction.numel());
  const torch::Tensor sum = difference.abs().sum(torch::kFloat64);
  return {{"mean_absolute_error", sum, at::full({}, elements, sum.options())}};
}

std::vector<MetricTerms> cross_entropy_metrics(const torch::Tensor& prediction, const torch::Tensor& target,
                                               int64_t ignore_index) {
  const torch::Tensor logits = flat_logits(prediction);
  const torch::Tensor targets = target.reshape({-1});
  const torch::Tensor counted = targets != ignore_index;  // which may be a class of its own
  const torch::Tensor weight = count(counted);
  std::vector<MetricTerms> metrics;
  metrics.push_back({"accuracy", count((logits.argmax(1) == targets).logical_and_(counted)), weight});
  constexpr int64_t kTop = 5;
  if (logits.size(1) > kTop) {
    const torch::Tensor best = std::get<1>(logits.topk(kTop, 1));
    metrics.push_back({"top5", count((best == targets.unsqueeze(1)).any(1).logical_and_(counted)), weight});
  }
  if (prediction.dim() == 3) {
    metrics.push_back({"perplexity", cross_entropy_sum(logits, targets, 0, ignore_index), weight, true});
  }
  return metrics;
}

}  // namespace

Loss cross_entropy(CrossEntropyOptions o) {
  return {[o](const torch::Tensor& prediction, const torch::Tensor& target) {
            const torch::Tensor targets = flat_classes(target);
            return LossTerms{
                cross_entropy_sum(flat_logits(prediction), targets, o.label_smoothing, o.ignore_index),
                count(targets != o.ignore_index)};
          },
          [o](const torch::Tensor& prediction, const torch::Tensor& target) {
            return cross_entropy_metrics(prediction, target, o.ignore_index);
          }};
}

Loss mean_squared_error() {
  return {[](const torch::Tensor& prediction, const torch::Tensor& target) {
            const torch::Tensor wanted = regression_target(prediction, target);
            const torch::Tensor sum =
                at::mse_loss(prediction.to(torch::kFloat32), wanted, at::Reduction::Sum);
            const auto elements = static_cast<double>(prediction.numel());
            return LossTerms{sum, at::full({}, elements, sum.options().dtype(torch::kFloat64))};
          },
          mean_absolute_error};
}

const std::vector<LossRow>& loss_table() {
  static const std::vector<LossRow> table = {
      {{"cross_entropy",
        "Softmax cross-entropy over classes, summed over targets that are not ignored.",
        {real_key("label_smoothing", "Share of the target spread evenly over all classes.", 0.0)
             .from(0, 0.999),
         integer_key("ignore_index", "Targets of this value count for nothing.", -100)
             .from(-KeySpec::kLargest)}},
       [](const Parameters& p) {
         return cross_entropy(
             {.label_smoothing = p.real("label_smoothing"), .ignore_index = p.integer("ignore_index")});
       }},
      {{"mean_squared_error", "Squared difference of prediction and target, averaged over elements."},
       [](const Parameters&) { return mean_squared_error(); }},
      detection_row()};
  return table;
}

Loss make_loss(const Choice& choice) {
  for (const LossRow& row : loss_table()) {
    if (row.spec.name == choice.name) return row.make(Parameters(choice, row.spec));
  }
  throw Error(ExitCode::kBadRecipe, "loss.name", "there is no loss named " + choice.name);
}

}  // namespace autotrain
