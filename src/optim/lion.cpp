#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_sign.h>

#include "optim/foreach.h"
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
  void apply_parts(const Parts& parts) override {
    const auto means = of(parts, exp_avg_);
    decay_parameters(parts);
    foreach_difference(parts.scratch, means, parts.gradients);  // the step: β₁ m + (1 − β₁) g
    at::_foreach_mul_(parts.scratch, beta1_);
    at::_foreach_add_(parts.scratch, parts.gradients);
    at::_foreach_sign_(parts.scratch);
    at::_foreach_mul_(parts.scratch, rate());
    subtract_scratch(parts.parameters, parts);
    move(means, parts.gradients, one_minus_beta2_, parts);
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
