#include <ATen/ops/sub.h>

#include "optim/rows.h"
#include "optim/unfused.h"

namespace autotrain {
namespace {

// Chen et al. 2023, algorithm 2: the sign of the gradient and a running mean of it.
class Lion final : public UnfusedOptimizer {
 public:
  struct Options {
    double beta1 = 0.9, beta2 = 0.99;
  };

  Lion(Trained trained, const Options& options)
      : UnfusedOptimizer(std::move(trained)),
        exp_avg_(add_state("exp_avg")),
        beta1_(constant(options.beta1)),
        one_minus_beta2_(constant(1 - options.beta2)) {}

 private:
  void apply_part(const Part& part) override {
    const torch::Tensor& mean = exp_avg_[part.member];
    decay_parameter(part);
    torch::Tensor step = part.scratch;  // β₁ m + (1 − β₁) g
    at::sub_out(step, mean, part.gradient).mul_(beta1_).add_(part.gradient).sign_().mul_(rate());
    subtract(part.parameter, step);
    move(mean, part.gradient, one_minus_beta2_, part.scratch);
  }

  std::vector<torch::Tensor>& exp_avg_;
  torch::Tensor beta1_, one_minus_beta2_;
};

}  // namespace

OptimizerRow lion_row() {
  return {
      {"lion",
       "The sign of a mean of gradients, with decoupled weight decay (Chen et al. 2023, arXiv:2302.06675); "
       "lr is some 3 to 10 times smaller than for adamw, weight_decay as much larger.",
       {decay_key("beta1", "Decay of the mean whose sign is the step.", 0.9),
        decay_key("beta2", "Decay of the mean that is kept.", 0.99)}},
      /*adaptive=*/true,
      [](const Parameters&) { return 1; },
      [](const Parameters& p, Trained trained) {
        return std::make_unique<Lion>(std::move(trained),
                                      Lion::Options{.beta1 = p.real("beta1"), .beta2 = p.real("beta2")});
      }};
}

}  // namespace autotrain
