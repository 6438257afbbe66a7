#include <ATen/ops/mul.h>

#include "optim/rows.h"
#include "optim/trust_ratio.h"
#include "optim/unfused.h"

namespace autotrain {
namespace {

// You et al. 2017, algorithm 1: v = m v + lr · λ (g + β w), w −= v, with λ = η ‖w‖ ÷ (‖g‖ + β ‖w‖) for each
// tensor. Biases and normalisation weights have λ = 1 unless asked.
class Lars final : public UnfusedOptimizer {
 public:
  struct Options {
    double momentum = 0.9;
    double trust = 0.001;  // η
    bool adapt_all = false;
  };

  Lars(Trained trained, const Options& options)
      : UnfusedOptimizer(std::move(trained)),
        adapt_all_(options.adapt_all),
        momentum_(add_state("momentum")),
        lost_(constant(1 - options.momentum)),
        trust_(constant(options.trust)),
        norm_(largest_part()),
        trust_ratio_(device()) {}

 private:
  void apply_part(const Part& part) override {
    const torch::Tensor& velocity = momentum_[part.member];
    torch::Tensor scratch = part.scratch, step = part.gradient;
    const bool adapts = adapt_all_ || parameter_of(part.member).tensor.dim() >= 2;
    if (adapts) find_norms(part);
    if (decays()) step.add_(at::mul_out(scratch, part.parameter, decay()));
    step.mul_(rate());
    if (adapts) step.mul_(trust_ratio_.ratio());
    at::mul_out(scratch, velocity, lost_).sub_(step);  // what the velocity loses, less what it gains
    subtract(velocity, scratch);
    subtract(part.parameter, scratch.copy_(velocity));
  }

  void find_norms(const Part& part) {
    norm_(part.parameter, part.scratch, trust_ratio_.weights);
    norm_(part.gradient, part.scratch, trust_ratio_.update);
    at::mul_out(penalty_, trust_ratio_.weights, decay());
    trust_ratio_.update.add_(penalty_);
    trust_ratio_.weights.mul_(trust_);
  }

  bool adapt_all_;
  std::vector<torch::Tensor>& momentum_;
  torch::Tensor lost_, trust_, penalty_ = constant(0);
  TensorNorm norm_;
  TrustRatio trust_ratio_;
};

}  // namespace

OptimizerRow lars_row() {
  return {{"lars",
           "Momentum whose step is, tensor by tensor, in proportion to the weights' norm (You et al. 2017, "
           "arXiv:1708.03888), for SGD with very large batches; weight_decay is an L2 penalty.",
           {decay_key("momentum", "Decay of the running sum of steps.", 0.9),
            real_key("trust", "How far a tensor goes in one step at lr 1, as a part of its norm.", 0.001)
                .above(0, 1e3),
            adapt_all_key()}},
          /*adaptive=*/false,
          [](const Parameters&) { return 1; },
          [](const Parameters& p, Trained trained) {
            return std::make_unique<Lars>(std::move(trained),
                                          Lars::Options{.momentum = p.real("momentum"),
                                                        .trust = p.real("trust"),
                                                        .adapt_all = p.flag("adapt_all")});
          },
          /*whole_tensors=*/true};
}

}  // namespace autotrain
