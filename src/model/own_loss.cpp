#include "model/own_loss.h"

#include <ATen/ops/full.h>

#include <utility>

#include "autotrain/error.h"
#include "base/text.h"
#include "model/metrics.h"

namespace autotrain {
namespace {

class OwnLossTask final : public Task {
 public:
  OwnLossTask(std::shared_ptr<Network> network, PredictionMetrics metrics)
      : network_(std::move(network)), metrics_(std::move(metrics)) {}

  torch::nn::Module& module() override { return *network_; }
  LossTerms loss(const Batch& batch) override { return network_->own_loss(batch).terms; }

  EvaluationTerms evaluate(const Batch& batch) override {
    ModelsLoss own = network_->own_loss(batch);
    if (metrics_.empty()) return {std::move(own.terms), {}};
    return {std::move(own.terms), measured(metrics_, own.prediction, batch.targets)};
  }

 private:
  std::shared_ptr<Network> network_;
  PredictionMetrics metrics_;
};

}  // namespace

LossTerms terms_of(const torch::Tensor& loss, LossReduction reduction, int64_t samples) {
  const torch::Tensor wide = loss.to(torch::kFloat32).reshape({});
  const auto weight = static_cast<double>(samples);
  return {reduction == LossReduction::kMean ? wide * weight : wide,
          at::full({}, weight, wide.options().dtype(torch::kFloat64).requires_grad(false))};
}

ModelsLoss Network::own_loss(const Batch&) {
  throw Error(ExitCode::kBadRecipe, "loss.name", "model: the model computes no loss",
              "name the loss here, or export the module with --loss");
}

std::unique_ptr<Task> make_task_with_own_loss(std::shared_ptr<Network> network, PredictionMetrics metrics) {
  if (!network->has_own_loss()) {
    throw Error(ExitCode::kBadRecipe, "loss.name", "model: the model computes no loss of its own",
                "name the loss here; a module that has it inside is exported with --loss, or says so in "
                "model.loss of a TorchScript module");
  }
  if (!metrics.empty() && !network->predicts()) {
    throw Error(ExitCode::kBadRecipe, "loss.targets",
                "is set for metrics, and the model gives its loss alone, no prediction",
                "leave it out, or have the module return its prediction, too: --output-part or model.output");
  }
  return std::make_unique<OwnLossTask>(std::move(network), std::move(metrics));
}

}  // namespace autotrain
