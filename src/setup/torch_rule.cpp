#include "setup/torch_rule.h"

#include <torch/optim/lbfgs.h>
#include <torch/optim/optimizer.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "autotrain/error.h"
#include "base/run_thread.h"
#include "base/text.h"
#include "device/generators.h"
#include "optim/decay.h"
#include "recipe/patterns.h"
#include "setup/torch_state.h"
#include "setup/users_code.h"

namespace autotrain {
namespace {

using TheirOptimizer = torch::optim::Optimizer;

// One of them, and what it is for.
struct TorchPart {
  std::string name = {};
  std::vector<size_t> parameters = {};  // their numbers
  std::function<std::unique_ptr<TheirOptimizer>(std::vector<torch::Tensor> parameters)> make = {};
  std::function<bool(const UpdateInfo& info)> turn = {};
  double lr_factor = 1;
  bool own_rate = false;  // which the update's is a factor of
};

std::string in_words(const TorchPart& part) {
  return "the optimizer " + part.name;
}

// ------------------------------------------------------------------ one of them

// With the rates that it was made with. Its parameters are those that it was made for.
class Made {
 public:
  Made(const TorchPart& part, const std::vector<torch::Tensor>& parameters) : part_(part) {
    optimizer_ = call_user(in_words(part), [&] { return part.make(parameters); });
    if (!optimizer_) fail("was not made", "return one");
    if (dynamic_cast<torch::optim::LBFGS*>(optimizer_.get()) != nullptr) {
      fail("is L-BFGS, which computes the loss several times in a step, and a step of a run has one gradient",
           "take another one, such as torch::optim::Adam, or train this part by hand");
    }
    std::set<const void*> wanted, there;
    for (const torch::Tensor& each : parameters) wanted.insert(each.unsafeGetTensorImpl());
    for (const torch::Tensor& each : parameters_of(*optimizer_)) there.insert(each.unsafeGetTensorImpl());
    if (wanted != there) {
      fail("updates other tensors than it was made for",
           "make it with the parameters that `make` is given, all of them, in any groups");
    }
    for (const auto& group : optimizer_->param_groups()) rates_.push_back(rate_of(group));
    set_ = rates_;
  }

  TheirOptimizer& operator*() const { return *optimizer_; }

  // After state was loaded, for which the rate of its last step may be part of it.
  void forget_rates() { set_.assign(set_.size(), std::nullopt); }

  // @param rate of an update, as the part has it.
  void step(double rate) {
    set_rate(rate);
    call_user("step of " + in_words(part_), [&] {
      try {
        optimizer_->step();
      } catch (const std::bad_function_call&) {
        fail("asks for the loss again in step(), and a step of a run has one gradient",
             "compute the step from the gradients alone");
      }
      return true;
    });
  }

 private:
  [[noreturn]] void fail(const std::string& what, const std::string& hint) const {
    throw Error(ExitCode::kBrokenContract, in_words(part_), what, hint);
  }

  static std::optional<double> rate_of(const torch::optim::OptimizerParamGroup& group) {
    if (!group.has_options()) return std::nullopt;
    try {
      return group.options().get_lr();
    } catch (const c10::Error&) {
      return std::nullopt;  // options that do not tell it
    }
  }

  void set_rate(double rate) {
    for (size_t i = 0; i < rates_.size(); ++i) {
      if (!rates_[i]) {
        if (!part_.own_rate || rate != 1) fail_rate();
        continue;
      }
      auto& group = optimizer_->param_groups()[i];
      if (set_[i] && rate_of(group) != set_[i]) fail_changed(*set_[i], *rate_of(group));
      group.options().set_lr((part_.own_rate ? *rates_[i] : 1) * rate);
      set_[i] = rate_of(group);
    }
  }

  [[noreturn]] void fail_changed(double set, double now) const {
    fail(cat("had its learning rate changed from ", brief(set), " to ", brief(now),
             ", in its step or by a scheduler, and a step's rate is the run's to set"),
         "say how the rate changes by the recipe's schedule, whose factor this optimizer's rate is "
         "multiplied with; or keep a factor of its own in a member and multiply steps by it");
  }

  [[noreturn]] void fail_rate() const {
    fail("does not tell its learning rate, which the schedule changes",
         "override get_lr and set_lr in its OptimizerOptions; or, for TrainerOptions::optimizers, leave the "
         "schedule constant, without warm-up");
  }

  const TorchPart& part_;
  std::unique_ptr<TheirOptimizer> optimizer_;
  std::vector<std::optional<double>> rates_;  // of each group
  std::vector<std::optional<double>> set_;    // last; nothing: it is not known what it was then
};

// ------------------------------------------------------------------ before training

// Copies are the program's, not the run's: they stand for nothing that training takes.
std::vector<torch::Tensor> copies_of(const std::vector<torch::Tensor>& tensors) {
  const ThreadWork program(false);
  const torch::NoGradGuard no_gradients;
  std::vector<torch::Tensor> copies;
  for (const torch::Tensor& each : tensors) copies.push_back(each.detach().clone().requires_grad_());
  return copies;
}

void set_gradients(const std::vector<torch::Tensor>& tensors, double size) {
  const ThreadWork program(false);
  for (const torch::Tensor& each : tensors)
    each.mutable_grad() = at::linspace(-size, size, each.numel(), each.options().requires_grad(false))
                              .add_(size / 8)
                              .reshape(each.sizes());
}

// A part with its optimizer, and one that stands for it until training begins: it takes the memory that
// training will take, and is what trials step with.
class Stepping {
 public:
  Stepping(TorchPart part, const std::vector<NamedTensor>& parameters) : part_(std::move(part)) {
    std::vector<std::string> names;
    for (const size_t i : part_.parameters) {
      names.push_back(parameters[i].name);
      own_.push_back(parameters[i].tensor);
    }
    made_.emplace(part_, own_);
    rehearse(names);
  }
  Stepping(const Stepping&) = delete;
  Stepping& operator=(const Stepping&) = delete;

  const TorchPart& part() const { return part_; }
  bool in_turn = true;

  void step(double rate) {
    stand_in_.reset();
    copies_.clear();
    if (steps_ == 0) made_.emplace(part_, own_);  // for it may have looked at weights that were loaded since
    made_->step(rate);
    ++steps_;
  }

  // What a step takes, on copies.
  void try_step(double rate) {
    if (!stand_in_) return;
    const torch::NoGradGuard no_gradients;
    const Emptied emptied{copies_};
    for (size_t i = 0; i < own_.size(); ++i) {
      copies_[i].set_data(own_[i].detach().clone());  // without a gradient too: a step may go over all
      copies_[i].mutable_grad() = own_[i].grad();
    }
    stand_in_->step(rate);
  }

  const std::vector<NamedTensor>& state() const {
    const ThreadWork program(false);
    state_->take(**made_, steps_);
    return state_->tensors();
  }

  void reorder(const std::vector<std::string>& saved) { state_->reorder(saved); }

  void take_state() {
    steps_ = state_->steps();
    made_.emplace(part_, own_);
    if (steps_ == 0) return;
    state_->give(**made_);
    made_->forget_rates();
  }

 private:
  // Without data and gradients when the scope ends.
  struct Emptied {
    const std::vector<torch::Tensor>& copies;
    ~Emptied() {
      for (torch::Tensor copy : copies) {
        copy.mutable_grad().reset();
        copy.set_data(torch::empty({0}, copy.options()));
      }
    }
  };

  // Names of the parameters as the optimizer's groups have them.
  std::vector<std::string> in_order_of(const TheirOptimizer& optimizer,
                                       const std::vector<std::string>& names) const {
    std::vector<std::string> ordered;
    for (const torch::Tensor& each : parameters_of(optimizer)) {
      const auto own = std::ranges::find_if(copies_, [&](const auto& copy) { return copy.is_same(each); });
      ordered.push_back(names[static_cast<size_t>(own - copies_.begin())]);
    }
    return ordered;
  }

  // Two steps; the second one again by another one, to which `save` and `load` have carried what the first
  // one left.
  void rehearse(const std::vector<std::string>& names) {
    const torch::Device device = own_.empty() ? torch::Device(torch::kCPU) : own_.front().device();
    const GeneratorScope generators(device);
    const auto learn = [&](Made& made, const std::vector<torch::Tensor>& tensors, double size) {
      set_gradients(tensors, size);
      seed_generators(device, 1);
      made.step(part_.own_rate ? 1 : 1e-3);
    };
    copies_ = copies_of(own_);
    stand_in_.emplace(part_, copies_);
    const Emptied emptied{copies_};
    learn(*stand_in_, copies_, 0.5);
    const std::vector<torch::Tensor> other = copies_of(copies_);
    {
      const ThreadWork program(false);
      state_.emplace(part_.name, in_order_of(**stand_in_, names), **stand_in_);
      state_->take(**stand_in_, 1);
      Made second(part_, other);
      state_->give(*second);
      second.forget_rates();
      const GeneratorScope programs(device);  // another one than the run's
      learn(second, other, 0.25);
    }
    learn(*stand_in_, copies_, 0.25);
    {
      const ThreadWork program(false);
      state_->take(**stand_in_, 2);  // which refuses what changes and cannot be kept
      state_->take(**stand_in_, 0);
    }
    for (size_t i = 0; i < other.size(); ++i) {
      if (at::equal(other[i], copies_[i])) continue;
      throw Error(ExitCode::kBrokenContract, in_words(part_),
                  "keeps what its save and load do not carry: a step after them is another one than without",
                  "keep it in OptimizerParamState or in members, and override save and load for it "
                  "(torch::optim::serialize<ParamState, Options>(archive, *this))");
    }
  }

  const TorchPart part_;
  std::vector<torch::Tensor> own_;
  std::optional<Made> made_;
  std::vector<torch::Tensor> copies_;  // the stand-in's, without data but in its steps
  std::optional<Made> stand_in_;       // until training begins
  mutable std::optional<TorchState> state_;
  int64_t steps_ = 0;
};

// ------------------------------------------------------------------ all of them

// Waits for the device: whether an update is applied is the caller's to know.
class TorchRule final : public Optimizer {
 public:
  TorchRule(Trained trained, std::vector<TorchPart> parts) : Optimizer(std::move(trained)) {
    part_of_.resize(parameters().size());
    for (TorchPart& part : parts) {
      for (const size_t i : part.parameters) part_of_[i] = parts_.size();
      parts_.push_back(std::make_unique<Stepping>(std::move(part), parameters()));
    }
  }

  void begin_update(const UpdateInfo& info) override {
    for (const auto& each : parts_) {
      const TorchPart& part = each->part();
      each->in_turn =
          info.trial || !part.turn || call_user("turn of " + in_words(part), [&] { return part.turn(info); });
    }
  }

  bool has_turn(size_t parameter) const override { return parts_[part_of_[parameter]]->in_turn; }

  bool takes_turns() const override {
    return std::ranges::any_of(parts_, [](const auto& each) { return bool(each->part().turn); });
  }

  std::vector<NamedTensor> state() const override {
    std::vector<NamedTensor> all;
    for (const auto& each : parts_) {
      const std::vector<NamedTensor>& own = each->state();
      all.insert(all.end(), own.begin(), own.end());
    }
    return all;
  }

  void reorder(const std::vector<std::string>& saved) override {
    for (const auto& each : parts_) each->reorder(saved);
  }

  void take_state() override {
    for (const auto& each : parts_) each->take_state();
  }

 private:
  void before_groups(const Update& update) override {
    const bool applies = update.found_inf.item<float>() == 0;
    const double lr = update.lr_on_device.defined() ? update.lr_on_device.item<double>() : update.lr;
    bool finite = true;
    for (const NamedTensor& each : parameters()) {
      torch::Tensor gradient = each.tensor.grad();
      if (!gradient.defined()) continue;
      if (update.grad_scale) gradient.div_(*update.grad_scale);
      // A trial must take what an update takes; what is not finite is no trial.
      if (!applies) finite = finite && at::isfinite(gradient).all().item<bool>();
    }
    for (const auto& each : parts_) {
      if (!each->in_turn) continue;
      const double rate = lr * each->part().lr_factor;
      if (applies) each->step(rate);
      if (!applies && finite) each->try_step(rate);
    }
  }

  void apply_group(const Group&, const Lists&, const Update&) override {}

  std::vector<std::unique_ptr<Stepping>> parts_;
  std::vector<size_t> part_of_;  // of each parameter
};

[[noreturn]] void refuse_optimizers(const std::string& what, const std::string& hint) {
  throw Error(ExitCode::kUsage, "TrainerOptions::optimizers", what, hint);
}

void check_names(const std::vector<TorchOptimizer>& own) {
  std::set<std::string> names;
  for (const TorchOptimizer& each : own) {
    const auto allowed = [](char c) {
      return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    };
    if (each.name.empty() || !std::ranges::all_of(each.name, allowed))
      refuse_optimizers(cat("one has the name ", quote(each.name)), "take letters, digits and _");
    if (!names.insert(each.name).second)
      refuse_optimizers(cat("two have the name ", quote(each.name)), "rename one of them");
    if (!each.make)
      refuse_optimizers(cat(quote(each.name), " has no function that makes it"), "set its make");
  }
}

std::vector<TorchPart> parts_of(const std::vector<TorchOptimizer>& own,
                                const std::vector<NamedTensor>& parameters) {
  check_names(own);
  std::vector<std::string> names;
  for (const NamedTensor& each : parameters) names.push_back(each.name);
  std::vector<TorchPart> parts;
  std::vector<std::string> taken(names.size());
  for (const TorchOptimizer& each : own) {
    check_patterns(cat("TrainerOptions::optimizers: ", each.name, ".match"), each.match, names,
                   "name of a parameter that is trained");
    TorchPart& part = parts.emplace_back(
        TorchPart{.name = each.name, .make = each.make, .turn = each.turn, .own_rate = true});
    for (size_t i = 0; i < names.size(); ++i) {
      if (!matches_any(names[i], each.match)) continue;
      if (!taken[i].empty())
        refuse_optimizers(cat(names[i], " belongs to both ", taken[i], " and ", each.name),
                          "narrow their match");
      taken[i] = each.name;
      part.parameters.push_back(i);
    }
  }
  for (size_t i = 0; i < names.size(); ++i) {
    if (taken[i].empty())
      refuse_optimizers(cat("none updates ", names[i]),
                        "add it to the match of one, or freeze it: parameter.requires_grad_(false)");
  }
  return parts;
}

}  // namespace

MakeOptimizer torch_optimizers(std::vector<TorchOptimizer> own) {
  return [own = std::move(own)](Trained trained) -> std::unique_ptr<Optimizer> {
    std::vector<TorchPart> parts = parts_of(own, trained.parameters);
    return std::make_unique<TorchRule>(std::move(trained), std::move(parts));
  };
}

std::unique_ptr<Optimizer> make_torch_rule(const std::string& name, const MakeTorchOptimizer& make,
                                           Trained trained) {
  std::map<std::tuple<double, double, int64_t>, std::vector<size_t>> alike;  // by rate, decay and turn
  for (const ParameterGroup& group : trained.groups) {
    for (const size_t i : group.parameters) {
      const bool decays =
          group.decay_all || (trained.decayed.empty() ? decayed_by_shape(trained.parameters[i].tensor)
                                                      : static_cast<bool>(trained.decayed[i]));
      alike[{group.lr_factor, decays ? group.weight_decay : 0, group.every}].push_back(i);
    }
  }
  std::vector<TorchPart> parts;
  for (auto& [key, numbers] : alike) {
    std::ranges::sort(numbers);
    const auto [lr_factor, weight_decay, every] = key;
    TorchPart& part = parts.emplace_back(TorchPart{
        .name = parts.empty() ? name : cat(name, parts.size() + 1),
        .parameters = std::move(numbers),
        .make = [make, weight_decay](
                    std::vector<torch::Tensor> tensors) { return make(std::move(tensors), weight_decay); },
        .lr_factor = lr_factor});
    if (every == 1) continue;
    part.turn = [turns = ParameterGroup{.every = every}](const UpdateInfo& info) {
      return turns.in_turn(info);
    };
  }
  return std::make_unique<TorchRule>(std::move(trained), std::move(parts));
}

}  // namespace autotrain
