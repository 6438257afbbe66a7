#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>

#include "optim/rows.h"
#include "optim/with_rate.h"

namespace autotrain {
namespace {

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
        steps_(add_counts("step")),
        step_of_(steps_.unbind()) {
    set_second_moment({exp_avg_sq_, steps_, options.beta2, options.epsilon});
  }

 private:
  void before_groups(const Update& update) override {
    count_update(step_of_, update.found_inf, one_, delta_);
  }

  void apply_group(const Group& group, const Lists& lists, const Update& update) override {
    const auto exp_avgs = select(exp_avg_, lists);
    const auto exp_avg_sqs = select(exp_avg_sq_, lists);
    std::vector<torch::Tensor> steps;  // each parameter has its own clock, as PyTorch's have
    steps.reserve(lists.members.size());
    for (const size_t member : lists.members) steps.push_back(step_of_[number_of(member)]);
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
  torch::Tensor steps_;                 // [parameters] updates that each has had
  std::vector<torch::Tensor> step_of_;  // each of them
  const torch::Tensor one_ = torch::ones({}, steps_.options()), delta_ = torch::zeros({}, steps_.options());
};

OptimizerRow adam_like_row(const char* name, const char* sentence, bool decoupled) {
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

}  // namespace

OptimizerRow adam_row() {
  return adam_like_row("adam", "Adam; weight_decay is an L2 penalty.", false);
}

OptimizerRow adamw_row() {
  return adam_like_row("adamw", "Adam with decoupled weight decay.", true);
}

}  // namespace autotrain
