#include <ATen/ops/_fused_sgd.h>

#include "autotrain/error.h"
#include "optim/rows.h"
#include "optim/with_rate.h"

namespace autotrain {
namespace {

// Sutskever et al. 2013, as in torch.optim.SGD with dampening 0: the buffer starts at zero, which
// equals PyTorch's first step (buffer = gradient).
class Sgd final : public Optimizer {
 public:
  struct Options {
    double momentum = 0;
    bool nesterov = false;
  };

  Sgd(Trained trained, const Options& options) : Optimizer(std::move(trained)), options_(options) {
    if (options_.momentum > 0) momentum_ = &add_state("momentum");
  }

 private:
  void apply_group(const Group& group, const Lists& lists, const Update& update) override {
    const auto buffers = momentum_ ? select(*momentum_, lists) : std::vector<torch::Tensor>{};
    with_rate(update, [&](const auto& lr) {
      at::_fused_sgd_(lists.parameters, lists.gradients, buffers, group.weight_decay, options_.momentum, lr,
                      /*dampening=*/0, options_.nesterov, /*maximize=*/false, /*is_first_step=*/false,
                      update.grad_scale, update.found_inf);
    });
  }

  Options options_;
  std::vector<torch::Tensor>* momentum_ = nullptr;
};

}  // namespace

OptimizerRow sgd_row() {
  return {{"sgd",
           "Stochastic gradient descent; weight_decay is an L2 penalty.",
           {decay_key("momentum", "Decay of the running sum of gradients.", 0.0),
            bool_key("nesterov", "Look ahead along the momentum.", false)}},
          /*adaptive=*/false,
          [](const Parameters& p) { return p.real("momentum") > 0 ? 1 : 0; },
          [](const Parameters& p, Trained trained) {
            if (p.flag("nesterov") && p.real("momentum") == 0) {
              throw Error(ExitCode::kBadRecipe, "optimizer.nesterov",
                          "looks ahead along the momentum, and optimizer.momentum is 0",
                          "set optimizer.momentum: 0.9, or leave nesterov out");
            }
            return std::make_unique<Sgd>(std::move(trained), Sgd::Options{.momentum = p.real("momentum"),
                                                                          .nesterov = p.flag("nesterov")});
          }};
}

}  // namespace autotrain
