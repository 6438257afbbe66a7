#include <ATen/ops/div.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sub.h>

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
        share2_(constant(1 - o.beta2)),
        epsilon_(constant(o.epsilon)),
        beta1_(clock_.scalar(o.beta1)),
        beta2_(clock_.scalar(o.beta2)),
        one_(clock_.scalar(1)),
        norm_(largest_part()),
        trust_ratio_(device()) {
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

  void apply_part(const Part& part) override {
    const torch::Tensor &mean = exp_avg_[part.member], &square = exp_avg_sq_[part.member];
    torch::Tensor scratch = part.scratch, step = part.gradient;
    move(mean, step, share1_, scratch);
    move(square, at::mul_out(scratch, step, step), share2_, scratch);
    at::div_out(scratch, square, correction2_).sqrt_().add_(epsilon_);
    at::div_out(step, mean, correction1_).div_(scratch);
    if (decays()) step.add_(at::mul_out(scratch, part.parameter, decay()));
    if (adapt_all_ || parameter_of(part.member).tensor.dim() >= 2) {
      norm_(part.parameter, scratch, trust_ratio_.weights);
      norm_(step, scratch, trust_ratio_.update);
      step.mul_(trust_ratio_.ratio());
    }
    subtract(part.parameter, step.mul_(rate()));
  }

  bool adapt_all_;
  std::vector<torch::Tensor>&exp_avg_, &exp_avg_sq_;
  UpdateClock clock_;
  torch::Tensor share1_, share2_, epsilon_;                              // float32
  torch::Tensor correction1_ = constant(0), correction2_ = constant(0);  // float32
  torch::Tensor beta1_, beta2_, one_, power_ = clock_.scalar(0);         // float64
  TensorNorm norm_;
  TrustRatio trust_ratio_;
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
