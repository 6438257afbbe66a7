#include "autotrain/task.h"

namespace autotrain {
namespace {

class Supervised final : public Task {
 public:
  Supervised(std::shared_ptr<torch::nn::Module> module, Forward forward, Loss loss)
      : module_(std::move(module)), forward_(std::move(forward)), loss_(std::move(loss)) {}

  torch::nn::Module& module() override { return *module_; }

  LossTerms loss(const Batch& batch) override { return loss_.terms(forward_(batch.inputs), batch.targets); }

  EvaluationTerms evaluate(const Batch& batch) override {
    const torch::Tensor prediction = forward_(batch.inputs);
    EvaluationTerms terms{loss_.terms(prediction, batch.targets), {}};
    for (const auto& metric : loss_.metrics) {
      terms.metrics.push_back({metric, metric->measure(prediction, batch.targets)});
    }
    return terms;
  }

 private:
  std::shared_ptr<torch::nn::Module> module_;
  Forward forward_;
  Loss loss_;
};

}  // namespace

std::unique_ptr<Task> make_supervised(std::shared_ptr<torch::nn::Module> module, Forward forward, Loss loss) {
  return std::make_unique<Supervised>(std::move(module), std::move(forward), std::move(loss));
}

}  // namespace autotrain
