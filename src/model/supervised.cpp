#include "autotrain/error.h"
#include "autotrain/task.h"
#include "model/metrics.h"

namespace autotrain {
namespace {

class Supervised final : public Task {
 public:
  Supervised(std::shared_ptr<torch::nn::Module> module, BatchForward forward, Loss loss)
      : module_(std::move(module)), forward_(std::move(forward)), loss_(std::move(loss)) {}

  torch::nn::Module& module() override { return *module_; }

  LossTerms loss(const Batch& batch) override { return loss_.terms(forward_(batch), batch.targets); }

  EvaluationTerms evaluate(const Batch& batch) override {
    const torch::Tensor prediction = forward_(batch);
    return {loss_.terms(prediction, batch.targets), measured(loss_.metrics, prediction, batch.targets)};
  }

 private:
  std::shared_ptr<torch::nn::Module> module_;
  BatchForward forward_;
  Loss loss_;
};

}  // namespace

std::unique_ptr<Task> make_supervised(std::shared_ptr<torch::nn::Module> module, Forward forward, Loss loss) {
  return make_supervised_on_batches(
      std::move(module), [forward = std::move(forward)](const Batch& batch) { return forward(batch.inputs); },
      std::move(loss));
}

std::unique_ptr<Task> make_supervised_on_batches(std::shared_ptr<torch::nn::Module> module,
                                                 BatchForward forward, Loss loss) {
  if (!module)
    throw Error(ExitCode::kUsage, "supervised", "has no module: was it moved elsewhere?", "give it one");
  if (!forward || !loss.terms)
    throw Error(ExitCode::kUsage, "supervised", "has no forward pass, or no loss", "give it both");
  for (const auto& metric : loss.metrics) {
    if (!metric) throw Error(ExitCode::kUsage, "supervised", "has a metric that is null", "leave it out");
  }
  return std::make_unique<Supervised>(std::move(module), std::move(forward), std::move(loss));
}

}  // namespace autotrain
