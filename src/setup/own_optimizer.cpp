#include "setup/own_optimizer.h"

#include <torch/optim/optimizer.h>

#include "setup/own_values.h"
#include "setup/torch_rule.h"
#include "setup/users_code.h"

namespace autotrain {
namespace {

// Waits for the device: whether an update is applied is the caller's to know.
class OwnRule final : public Optimizer {
 public:
  using Step = std::function<void(const OwnStep&)>;

  OwnRule(Trained trained, std::string name, const std::vector<std::string>& states, Step step)
      : Optimizer(std::move(trained)), name_(std::move(name)), step_(std::move(step)) {
    for (const std::string& state : states) states_.push_back(&add_state(state));
    updates_ = add_scalar("updates");
  }

 private:
  void before_groups(const Update& update) override {
    applies_ = update.found_inf.item<float>() == 0;
    if (applies_) updates_.add_(1);
  }

  void apply_group(const Group& group, const Lists& lists, const Update& update) override {
    const double lr = update.lr_on_device.defined() ? update.lr_on_device.item<double>() : update.lr;
    for (size_t i = 0; i < lists.members.size(); ++i) {
      torch::Tensor parameter = lists.parameters[i], gradient = lists.gradients[i];
      if (update.grad_scale) gradient.div_(*update.grad_scale);
      std::vector<torch::Tensor> states;
      for (const std::vector<torch::Tensor>* const state : states_)
        states.push_back((*state)[lists.members[i]]);
      if (!applies_) {
        // A trial must take what an update takes; what is not finite is no trial.
        if (!at::isfinite(gradient).all().item<bool>()) continue;
        parameter = parameter.clone();
        for (torch::Tensor& state : states) state = state.clone();
      }
      call_user("the optimizer " + name_, [&] {
        step_({.name = parameter_of(lists.members[i]).name,
               .parameter = parameter,
               .gradient = gradient,
               .states = states,
               .lr = lr,
               .weight_decay = group.weight_decay,
               .update = updates_.item<int64_t>() + (applies_ ? 0 : 1)});
        return true;
      });
    }
  }

  const std::string name_;
  const Step step_;
  std::vector<const std::vector<torch::Tensor>*> states_;
  torch::Tensor updates_;
  bool applies_ = false;
};

}  // namespace

OptimizerRow row_of(const OwnOptimizer& own, ChoiceSpec spec) {
  if (own.make_torch) {
    const auto make = [own](const Parameters& parameters, Trained trained) {
      const OwnValues values = values_of(parameters, own.part);
      return make_torch_rule(
          own.part.name,
          [own, values](std::vector<torch::Tensor> tensors, double weight_decay) {
            return own.make_torch(values, std::move(tensors), weight_decay);
          },
          std::move(trained));
    };
    return {.spec = std::move(spec),
            .adaptive = own.adaptive,
            .moments = [](const Parameters&) { return 0; },
            .make = make,
            .whole_tensors = true};
  }
  return {.spec = spec,
          .adaptive = own.adaptive,
          .moments = [count = std::ssize(own.states)](const Parameters&) { return count; },
          .make = [own, spec](const Parameters& parameters, Trained trained) -> std::unique_ptr<Optimizer> {
            OwnRule::Step step = call_user("the optimizer " + own.part.name,
                                           [&] { return own.make(values_of(parameters, own.part)); });
            return std::make_unique<OwnRule>(std::move(trained), own.part.name, own.states, std::move(step));
          },
          .whole_tensors = true};
}

}  // namespace autotrain
