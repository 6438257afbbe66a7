#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>

#include "optim/optimizer.h"

namespace autotrain {
namespace {

// Calls `kernel(rate)` with the number, or with the tensor that holds it.
template <class Kernel>
void with_rate(const Optimizer::Update& update, Kernel kernel) {
  if (update.lr_on_device.defined()) {
    kernel(update.lr_on_device);
  } else {
    kernel(update.lr);
  }
}

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

// Kingma and Ba 2015; decoupled decay: Loshchilov and Hutter 2019.
class Adam final : public Optimizer {
 public:
  struct Options {
    bool decoupled = true;
    double beta1 = 0.9, beta2 = 0.999;
    double epsilon = 1e-8;
  };

  Adam(Trained trained, const Options& options)
      : Optimizer(std::move(trained)),
        options_(options),
        exp_avg_(add_state("exp_avg")),
        exp_avg_sq_(add_state("exp_avg_sq")),
        step_(add_scalar("step")),
        one_(torch::ones_like(step_)) {}

 private:
  void before_groups(const Update& update) override {
    step_.add_(one_).sub_(
        update.found_inf);  // a number in the place of the tensor would be allocated each time
  }

  void apply_group(const Group& group, const Lists& lists, const Update& update) override {
    const auto exp_avgs = select(exp_avg_, lists);
    const auto exp_avg_sqs = select(exp_avg_sq_, lists);
    const std::vector<torch::Tensor> steps(lists.members.size(), step_);  // one clock for all
    with_rate(update, [&](const auto& lr) {
      const auto apply = [&](const auto&... arguments) {
        options_.decoupled ? at::_fused_adamw_(arguments...) : at::_fused_adam_(arguments...);
      };
      apply(lists.parameters, lists.gradients, exp_avgs, exp_avg_sqs, at::TensorList(), steps, lr,
            options_.beta1, options_.beta2, group.weight_decay, options_.epsilon, /*amsgrad=*/false,
            /*maximize=*/false, update.grad_scale, update.found_inf);
    });
  }

  Options options_;
  std::vector<torch::Tensor>& exp_avg_;
  std::vector<torch::Tensor>& exp_avg_sq_;
  torch::Tensor step_;
  torch::Tensor one_;
};

KeySpec decay_key(const char* name, const char* sentence, double fallback) {
  return real_key(name, sentence, fallback).from(0, 0.999999);
}

std::vector<KeySpec> adam_keys() {
  return {decay_key("beta1", "Decay of the running mean of gradients.", 0.9),
          decay_key("beta2", "Decay of the running mean of squared gradients.", 0.999),
          real_key("epsilon", "Added to the denominator.", 1e-8).from(0, 1)};
}

OptimizerRow adam_row(const char* name, const char* sentence, bool decoupled) {
  return {{name, sentence, adam_keys()},
          /*adaptive=*/true,
          [](const Parameters&) { return 2; },
          [decoupled](const Parameters& p, Trained trained) {
            return std::make_unique<Adam>(std::move(trained), Adam::Options{.decoupled = decoupled,
                                                                            .beta1 = p.real("beta1"),
                                                                            .beta2 = p.real("beta2"),
                                                                            .epsilon = p.real("epsilon")});
          }};
}

OptimizerRow sgd_row() {
  return {{"sgd",
           "Stochastic gradient descent; weight_decay is an L2 penalty.",
           {decay_key("momentum", "Decay of the running sum of gradients.", 0.0),
            bool_key("nesterov", "Look ahead along the momentum.", false)}},
          /*adaptive=*/false,
          [](const Parameters& p) { return p.real("momentum") > 0 ? 1 : 0; },
          [](const Parameters& p, Trained trained) {
            return std::make_unique<Sgd>(std::move(trained), Sgd::Options{.momentum = p.real("momentum"),
                                                                          .nesterov = p.flag("nesterov")});
          }};
}

}  // namespace

const std::vector<OptimizerRow>& optimizer_table() {
  static const std::vector<OptimizerRow> table = {
      sgd_row(), adam_row("adam", "Adam; weight_decay is an L2 penalty.", false),
      adam_row("adamw", "Adam with decoupled weight decay.", true)};
  return table;
}

}  // namespace autotrain
