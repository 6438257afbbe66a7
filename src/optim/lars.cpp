#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_sub.h>
#include <ATen/ops/mul.h>

#include "optim/foreach.h"
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
        penalties_(torch::zeros({static_cast<int64_t>(members())}, trust_.options())),
        norms_(largest_part()),
        trust_ratios_(device(), members()) {}

 private:
  void apply_parts(const Parts& parts) override {
    const auto velocities = of(parts, momentum_);
    const std::vector<torch::Tensor>& steps = parts.gradients;
    const bool adapts = adapt_all_ || is_weight(parts.members.front());
    if (adapts) find_norms(parts);
    if (decays()) {
      foreach_product(parts.scratch, parts.parameters, decay());
      at::_foreach_add_(steps, parts.scratch);
    }
    at::_foreach_mul_(steps, rate());
    if (adapts) at::_foreach_mul_(steps, trust_ratios_.ratios());
    foreach_product(parts.scratch, velocities, lost_);
    at::_foreach_sub_(parts.scratch, steps);  // what the velocity loses, less what it gains
    subtract_scratch(velocities, parts);
    at::_foreach_copy_(parts.scratch, velocities);
    subtract_scratch(parts.parameters, parts);
  }

  void find_norms(const Parts& parts) {
    trust_ratios_.begin(parts.members.size());
    torch::Tensor weights = trust_ratios_.weights(), updates = trust_ratios_.updates();
    norms_(parts.parameters, parts.scratch, weights);
    norms_(parts.gradients, parts.scratch, updates);
    torch::Tensor penalties = penalties_.narrow(0, 0, weights.numel());
    updates.add_(at::mul_out(penalties, weights, decay()));
    weights.mul_(trust_);
  }

  bool adapt_all_;
  std::vector<torch::Tensor>& momentum_;
  torch::Tensor lost_, trust_, penalties_;
  TensorNorms norms_;
  TrustRatios trust_ratios_;
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
