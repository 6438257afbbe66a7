#include "model/mixture_task.h"

#include <utility>

#include "autotrain/error.h"
#include "model/experts.h"
#include "model/losses.h"
#include "model/metrics.h"

namespace autotrain {
namespace {

// However a pass ends, its layers keep nothing of it.
class ForgetScope {
 public:
  explicit ForgetScope(const Mixture& mixture) : layers_(mixture.expert_layers()) {}
  ~ForgetScope() {
    for (Experts& layer : layers_) layer->forget();
  }
  ForgetScope(const ForgetScope&) = delete;
  ForgetScope& operator=(const ForgetScope&) = delete;

 private:
  std::vector<Experts> layers_;
};

class MixtureTask final : public Task {
 public:
  MixtureTask(std::shared_ptr<Network> network, Choice choice, Loss loss)
      : network_(std::move(network)),
        mixture_(dynamic_cast<Mixture&>(*network_)),
        choice_(std::move(choice)),
        loss_(std::move(loss)) {}

  torch::nn::Module& module() override { return *network_; }

  LossTerms loss(const Batch& batch) override {
    const ForgetScope forget(mixture_);
    return with_balance(loss_.terms(network_->predict(batch), batch.targets), batch);
  }

  EvaluationTerms evaluate(const Batch& batch) override {
    const ForgetScope forget(mixture_);
    const torch::Tensor prediction = network_->predict(batch);
    return {loss_.terms(prediction, batch.targets), measured(loss_.metrics, prediction, batch.targets)};
  }

 private:
  LossTerms with_balance(LossTerms terms, const Batch& batch) const {
    const torch::Tensor counted = counted_targets(choice_, batch.targets);
    const torch::Tensor all = counted.defined() ? counted : at::ones_like(batch.targets, torch::kBool);
    const torch::Tensor tokens = all.sum(1).to(torch::kFloat32);
    const std::vector<Experts> layers = mixture_.expert_layers();
    torch::Tensor balance = at::zeros({}, tokens.options()), dropped = balance;
    for (const Experts& layer : layers) {
      balance = balance + (tokens * layer->balance(all)).sum();
      dropped = dropped + layer->loads().dropped;
    }
    balance = balance / static_cast<double>(layers.size());
    terms.parts.push_back({"task", terms.sum.detach()});
    terms.parts.push_back({"balance", balance.detach()});
    terms.parts.push_back({"dropped", dropped.detach()});
    terms.sum = terms.sum + mixture_.expert_options().balance * balance;
    return terms;
  }

  std::shared_ptr<Network> network_;
  const Mixture& mixture_;
  const Choice choice_;
  const Loss loss_;
};

}  // namespace

std::unique_ptr<Task> make_mixture_task(std::shared_ptr<Network> network, const Choice& choice, Loss loss) {
  if (choice.parameters.contains("class_weights")) {
    throw Error(ExitCode::kBadRecipe, "loss.class_weights",
                "weighs tokens by their classes, and the balance of experts counts each token once",
                "leave it out, or set model.experts: 0");
  }
  return std::make_unique<MixtureTask>(std::move(network), choice, std::move(loss));
}

}  // namespace autotrain
