#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_div.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_sqrt.h>
#include <ATen/ops/sub.h>

#include "optim/foreach.h"
#include "optim/rows.h"
#include "optim/trust_ratio.h"
#include "optim/unfused.h"

namespace autotrain {
namespace {

// You et al. 2020, algorithm 2, with φ(x) = x: w −= lr · ‖w‖ ÷ ‖u‖ · u for each tensor, with
// u = m̂ ÷ (√v̂ + ε) + λ w. Biases and normalisation weights have the ratio 1 unless asked.
class Lamb final : public UnfusedOptimizer {
 public:
  struct Options {
    double beta1 = 0.9, beta2 = 0.999;
    double epsilon = 1e-6;
    bool adapt_all = false;
  };

  Lamb(Trained trained, const Options& o)
      : UnfusedOptimizer(std::move(trained)),
        adapt_all_(o.adapt_all),
        exp_avg_(add_state("exp_avg")),
        exp_avg_sq_(add_state("exp_avg_sq")),
        clock_(add_scalar("step")),
        share1_(constant(1 - o.beta1)),
        minus_share2_(constant(-(1 - o.beta2))),
        epsilon_(constant(o.epsilon)),
        beta1_(clock_.scalar(o.beta1)),
        beta2_(clock_.scalar(o.beta2)),
        one_(clock_.scalar(1)),
        norms_(largest_part()),
        trust_ratios_(device(), members()) {
    set_second_moment({exp_avg_sq_, clock_.updates(), o.beta2, o.epsilon});
  }

 private:
  void before_parts(const Update& update) override {
    clock_.tick(update.found_inf);
    for (auto& [base, correction] : {std::pair{beta1_, correction1_}, {beta2_, correction2_}}) {
      clock_.power(base, power_);
      correction.copy_(at::sub_out(power_, one_, power_));  // 1 − βᵗ
    }
  }

  void apply_parts(const Parts& parts) override {
    const auto means = of(parts, exp_avg_), squares = of(parts, exp_avg_sq_);
    const std::vector<torch::Tensor>& steps = parts.gradients;
    move(means, parts.gradients, share1_, parts);
    move_to_squares(squares, minus_share2_, parts);
    foreach_quotient(parts.scratch, squares, correction2_);
    at::_foreach_sqrt_(parts.scratch);
    at::_foreach_add_(parts.scratch, epsilon_);
    foreach_quotient(steps, means, correction1_);  // the gradients are not needed any more
    at::_foreach_div_(steps, parts.scratch);
    if (decays()) {
      foreach_product(parts.scratch, parts.parameters, decay());
      at::_foreach_add_(steps, parts.scratch);
    }
    if (adapts(parts)) at::_foreach_mul_(steps, trust_ratios(parts));
    foreach_product(parts.scratch, steps, rate());
    subtract_scratch(parts.parameters, parts);
  }

  bool adapts(const Parts& parts) const { return adapt_all_ || is_weight(parts.members.front()); }

  at::TensorList trust_ratios(const Parts& parts) {
    trust_ratios_.begin(parts.members.size());
    norms_(parts.parameters, parts.scratch, trust_ratios_.weights());
    norms_(parts.gradients, parts.scratch, trust_ratios_.updates());
    return trust_ratios_.ratios();
  }

  bool adapt_all_;
  std::vector<torch::Tensor>&exp_avg_, &exp_avg_sq_;
  UpdateClock clock_;
  torch::Tensor share1_, minus_share2_, epsilon_;                        // float32
  torch::Tensor correction1_ = constant(0), correction2_ = constant(0);  // float32
  torch::Tensor beta1_, beta2_, one_, power_ = clock_.scalar(0);         // float64
  TensorNorms norms_;
  TrustRatios trust_ratios_;
};

}  // namespace

OptimizerRow lamb_row() {
  return {{"lamb",
           "Adam whose step is, tensor by tensor, in proportion to the weights' norm, with decoupled weight "
           "decay (You et al. 2020, arXiv:1904.00962), for very large batches.",
           [] {
             std::vector<KeySpec> keys = adam_keys(1e-6);
             keys.push_back(adapt_all_key());
             return keys;
           }()},
          /*adaptive=*/true,
          [](const Parameters&) { return 2; },
          [](const Parameters& p, Trained trained) {
            return std::make_unique<Lamb>(std::move(trained),
                                          Lamb::Options{.beta1 = p.real("beta1"),
                                                        .beta2 = p.real("beta2"),
                                                        .epsilon = p.real("epsilon"),
                                                        .adapt_all = p.flag("adapt_all")});
          },
          /*whole_tensors=*/true};
}

}  // namespace autotrain
