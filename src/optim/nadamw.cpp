#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_div.h>
#include <ATen/ops/_foreach_sqrt.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/where.h>

#include <cmath>

#include "optim/foreach.h"
#include "optim/rows.h"
#include "optim/unfused.h"

namespace autotrain {
namespace {

// Dozat 2016 with decoupled decay, as torch.optim.NAdam(decoupled_weight_decay=True): with
// μ(t) = β₁ (1 − ½ · 0.96^(ψ t)), the step is
// lr · ((1 − μ(t)) g ÷ (1 − Π μ) + μ(t + 1) m ÷ (1 − μ(t + 1) Π μ)) ÷ (√v̂ + ε).
class NAdamW final : public UnfusedOptimizer {
 public:
  struct Options {
    double beta1 = 0.9, beta2 = 0.999;
    double epsilon = 1e-8;
    double momentum_decay = 0.004;  // ψ
  };

  NAdamW(Trained trained, const Options& o)
      : UnfusedOptimizer(std::move(trained)),
        exp_avg_(add_state("exp_avg")),
        exp_avg_sq_(add_state("exp_avg_sq")),
        clock_(add_scalar("step")),
        product_(add_scalar("mu_product").fill_(1)),
        share1_(constant(1 - o.beta1)),
        minus_share2_(constant(-(1 - o.beta2))),
        epsilon_(constant(o.epsilon)),
        base_(clock_.scalar(std::pow(0.96, o.momentum_decay))),
        beta1_(clock_.scalar(o.beta1)),
        half_(clock_.scalar(o.beta1 / 2)),
        half_next_(clock_.scalar(o.beta1 / 2 * std::pow(0.96, o.momentum_decay))),
        beta2_(clock_.scalar(o.beta2)),
        one_(clock_.scalar(1)) {
    set_second_moment({exp_avg_sq_, clock_.updates(), o.beta2, o.epsilon});
  }

 private:
  // All of it in float64, on the device: 1 − β₂ᵗ has few digits in float32.
  void before_parts(const Update& update) override {
    clock_.tick(update.found_inf);
    clock_.power(base_, power_);
    at::mul_out(mu_, power_, half_);
    at::sub_out(mu_, beta1_, mu_);
    at::mul_out(next_, power_, half_next_);
    at::sub_out(next_, beta1_, next_);
    products_.copy_(product_);
    products_.mul_(mu_);
    moved_.copy_(products_);
    at::where_out(product_, skipped(), product_, moved_);
    // (1 − μ) ÷ (1 − Π) and μ' ÷ (1 − μ' Π)
    at::sub_out(mu_, one_, mu_);
    at::sub_out(rest_, one_, products_);
    gradient_weight_.copy_(mu_.div_(rest_));
    at::mul_out(rest_, next_, products_);
    at::sub_out(rest_, one_, rest_);
    mean_weight_.copy_(next_.div_(rest_));
    clock_.power(beta2_, power_);
    correction_.copy_(at::sub_out(power_, one_, power_));
  }

  void before_group() override {
    at::mul_out(gradient_step_, gradient_weight_, rate());
    at::mul_out(mean_step_, mean_weight_, rate());
  }

  void apply_parts(const Parts& parts) override {
    const auto means = of(parts, exp_avg_), squares = of(parts, exp_avg_sq_);
    const std::vector<torch::Tensor>&step = parts.scratch, &divisors = parts.gradients;
    decay_parameters(parts);
    move(means, parts.gradients, share1_, parts);
    move_to_squares(squares, minus_share2_, parts);
    foreach_product(step, parts.gradients, gradient_step_);
    foreach_quotient(divisors, squares, correction_);  // the gradients are not needed any more
    at::_foreach_sqrt_(divisors);
    at::_foreach_add_(divisors, epsilon_);
    at::_foreach_div_(step, divisors);
    subtract_scratch(parts.parameters, parts);
    foreach_product(step, means, mean_step_);
    at::_foreach_div_(step, divisors);
    subtract_scratch(parts.parameters, parts);
  }

  std::vector<torch::Tensor>&exp_avg_, &exp_avg_sq_;
  UpdateClock clock_;
  torch::Tensor product_;                                        // of all μ so far
  torch::Tensor share1_, minus_share2_, epsilon_;                // float32
  torch::Tensor base_, beta1_, half_, half_next_, beta2_, one_;  // float64
  torch::Tensor power_ = clock_.scalar(0), mu_ = clock_.scalar(0), next_ = clock_.scalar(0),
                products_ = clock_.scalar(0), rest_ = clock_.scalar(0);
  torch::Tensor moved_ = constant(0), gradient_weight_ = constant(0), mean_weight_ = constant(0),
                correction_ = constant(0), gradient_step_ = constant(0), mean_step_ = constant(0);
};

std::vector<KeySpec> nadamw_keys() {
  std::vector<KeySpec> keys = adam_keys();
  keys.push_back(
      real_key("momentum_decay", "How fast the momentum rises towards beta1; 0: not at all.", 0.004)
          .from(0, 1));
  return keys;
}

}  // namespace

OptimizerRow nadamw_row() {
  return {{"nadamw",
           "Adam with Nesterov's momentum and decoupled weight decay (Dozat 2016), as "
           "torch.optim.NAdam(decoupled_weight_decay=True).",
           nadamw_keys()},
          /*adaptive=*/true,
          [](const Parameters&) { return 2; },
          [](const Parameters& p, Trained trained) {
            return std::make_unique<NAdamW>(std::move(trained),
                                            NAdamW::Options{.beta1 = p.real("beta1"),
                                                            .beta2 = p.real("beta2"),
                                                            .epsilon = p.real("epsilon"),
                                                            .momentum_decay = p.real("momentum_decay")});
          }};
}

}  // namespace autotrain
