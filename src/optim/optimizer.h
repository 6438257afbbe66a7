#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "autotrain/named_tensor.h"
#include "autotrain/update_info.h"
#include "base/flat_layout.h"
#include "optim/parameter_groups.h"
#include "recipe/keys.h"

namespace autotrain {

/// The parameters of a module that are trained, in its order, each tensor once.
std::vector<NamedTensor> trainable_parameters(const torch::nn::Module& module);

/// What an optimizer updates.
struct Trained {
  std::vector<NamedTensor> parameters;

  /// The elements of the parameters that it updates, at most one piece of each, where other ranks have the
  /// rest; nothing: all of all.
  std::optional<std::vector<TensorPiece>> pieces = {};

  std::vector<ParameterGroup> groups = {};  ///< each parameter in one

  /// Of each parameter, whether it is decayed where `decay_all` does not ask for all; empty: by its shape
  /// alone.
  std::vector<bool> decayed = {};

  /// How many elements optimizers of plain kernels update at once; nothing: what is fast on the device.
  std::optional<int64_t> together = {};
};

/// Applies updates in place and without host synchronisation, with LibTorch's fused kernels where it has
/// them.
///
/// All state is allocated at construction, so that memory is the same at every update. Biases and
/// normalisation weights (see decayed_by_rule) are not decayed unless asked.
class Optimizer {
 public:
  struct Update {
    double lr = 0;

    /// Scalar on the device, float64 on a CPU and float32 on a GPU, as the kernels want it, that holds the
    /// rate in the place of `lr`: kernels read it when they run, so that they can be recorded once and run
    /// again with another one. Undefined: `lr` counts.
    torch::Tensor lr_on_device = {};

    /// Scalar float32: gradients are divided by it inside the kernel. Nothing: by 1.
    std::optional<torch::Tensor> grad_scale;
    torch::Tensor found_inf;  ///< scalar float32: 1 leaves parameters and state untouched
  };

  virtual ~Optimizer() = default;

  /// Uses the parameters' gradients, whose values are lost; parameters without one are left alone. Allocates
  /// no tensor, so that it cannot fail half way for lack of memory.
  void apply(Update update);

  /// All of the model, whoever updates them.
  const std::vector<NamedTensor>& parameters() const { return trained_.parameters; }

  /// Whether it updates only a part of them.
  bool sharded() const { return trained_.pieces.has_value(); }

  /// Its part. Precondition: sharded.
  const std::vector<TensorPiece>& pieces() const { return *trained_.pieces; }

  /// A number that is kept for each element of the parameters.
  struct State {
    std::string name;
    std::vector<torch::Tensor> tensors;  ///< for each parameter; for each piece [count] where sharded

    /// "exp_avg.conv1.weight"
    std::string name_for(const NamedTensor& parameter) const { return name + "." + parameter.name; }
  };
  const std::deque<State>& states() const { return states_; }

  /// Numbers of the whole optimizer, which all ranks have.
  const std::vector<NamedTensor>& scalars() const { return scalars_; }

  /// Which update the next window is for; before that, trials.
  virtual void begin_update(const UpdateInfo& info);

  /// Whether it may update this parameter in that update. Where not, its gradient is to be dropped before
  /// anything is made of it.
  virtual bool has_turn(size_t parameter) const { return in_turn_.empty() || in_turn_[parameter]; }

  /// Whether the number of an update decides which parameters it may update.
  virtual bool takes_turns() const { return !in_turn_.empty(); }

  /// Everything an exact continuation needs besides the parameters, or this rank's part of it. The live
  /// tensors, named `exp_avg.conv1.weight`, in a fixed order.
  virtual std::vector<NamedTensor> state() const;

  /// To be called when tensors were read that were saved while the parameters had another order, before
  /// `take_state`: what has a place for each parameter is put in today's order.
  /// @param saved names of what was read, in the order that `state` had then.
  virtual void reorder(const std::vector<std::string>& saved);

  /// To be called when somebody wrote to the tensors of `state`.
  virtual void take_state() {}

  int64_t state_bytes() const;

  /// Memory beside the state, in which updates are computed.
  virtual int64_t scratch_bytes() const { return 0; }

  const std::vector<ParameterGroup>& groups() const { return trained_.groups; }

  /// How many of the parameters decay, whoever updates them.
  int64_t decayed() const;

  torch::Device device() const;

  /// What an optimizer divides gradients by: √(value ÷ (1 − betaᵗ)) + epsilon, element by element, after t
  /// updates.
  struct SecondMoment {
    const std::vector<torch::Tensor>& values;  ///< live, as those of a State
    torch::Tensor updates;  ///< t, live: float32 on the device, a scalar or one for each parameter
    double beta = 0, epsilon = 0;
  };

  /// Nothing: it does not divide them.
  const std::optional<SecondMoment>& second_moment() const { return second_moment_; }

 protected:
  /// Parameters that share hyper-parameters, with what this update needs of them.
  struct Group {
    double lr_factor = 1;
    double weight_decay = 0;
    std::vector<size_t> members = {};  ///< numbers of parameters, or of pieces where sharded
    torch::Tensor factor = {},
                  lr = {};  ///< scalars for a rate on the device; undefined where the factor is 1
  };

  /// The lists a fused kernel takes, of the members that have a gradient now.
  struct Lists {
    std::vector<torch::Tensor> parameters, gradients;
    std::vector<size_t> members;
  };

  explicit Optimizer(Trained trained);

  /// One more state, zero.
  std::vector<torch::Tensor>& add_state(const std::string& name);

  /// A scalar of the whole optimizer, float32 and zero, on the parameters' device.
  torch::Tensor add_scalar(const std::string& name);

  /// Likewise, one for each parameter: [parameters().size()], whoever updates them.
  torch::Tensor add_counts(const std::string& name);

  /// Adds `one` − `found_inf` to the counts of the parameters that have a gradient. Allocates nothing on a
  /// device. @param counts a scalar for each parameter. @param delta a scalar float32 to compute in.
  void count_update(const std::vector<torch::Tensor>& counts, const torch::Tensor& found_inf,
                    const torch::Tensor& one, torch::Tensor delta) const;

  /// The number of the member's parameter.
  size_t number_of(size_t member) const { return sharded() ? pieces()[member].tensor : member; }

  /// Whether it is decayed where `decay_all` does not ask for all: it is no bias and no weight of a
  /// normalisation. All members of a group are, or none.
  bool is_weight(size_t member) const { return trained_.decayed[number_of(member)]; }

  /// Once, at construction, of what was added as state.
  void set_second_moment(const SecondMoment& moment) { second_moment_.emplace(moment); }

  std::optional<int64_t> updated_together() const { return trained_.together; }

  /// How many parameters there are, or pieces where sharded.
  size_t members() const { return sharded() ? pieces().size() : parameters().size(); }
  const NamedTensor& parameter_of(size_t member) const;

  /// What it updates of `tensor`, which is laid out as the member's parameter is.
  torch::Tensor own_part(const torch::Tensor& tensor, size_t member) const;

  virtual void before_groups(const Update&) {}

  /// @param update with the group's own rate.
  virtual void apply_group(const Group& group, const Lists& lists, const Update& update) = 0;

  /// The elements of a per-parameter state that belong to `lists`.
  static std::vector<torch::Tensor> select(const std::vector<torch::Tensor>& all, const Lists& lists);

 private:
  void add_group(const ParameterGroup& group, bool decays);
  Lists lists_of(const Group& group) const;

  Trained trained_;
  std::vector<bool> in_turn_;  // of each parameter; empty: all are, always
  std::vector<Group> groups_;
  std::deque<State> states_;  // subclasses refer to them
  std::vector<NamedTensor> scalars_;
  std::vector<torch::Tensor> counts_;  // of them: those with a number for each parameter
  std::optional<SecondMoment> second_moment_;
};

struct OptimizerRow {
  ChoiceSpec spec;
  bool adaptive = false;  ///< its step does not grow with the gradient, so sqrt scaling is better founded
  std::function<int64_t(const Parameters&)> moments;  ///< float32 numbers that are kept for each weight
  std::function<std::unique_ptr<Optimizer>(const Parameters&, Trained)> make;
  bool whole_tensors = false;  ///< needs the norm of a whole tensor, so that ranks cannot share it out
};

/// Every optimizer a recipe can name.
const std::vector<OptimizerRow>& optimizer_table();

/// Adds a part of the program's own. To be called before anything refers to a row.
void add_row(OptimizerRow row);

/// @throws Error(kBadRecipe) when there is no such optimizer.
const OptimizerRow& find_optimizer(const std::string& name);

/// How many float32 numbers the recipe's optimizer keeps for each weight.
int64_t moments_per_weight(const OptimizerRecipe& recipe);

/// @throws Error(kBadRecipe) as parameter_groups.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerRecipe& recipe, Trained trained);

}  // namespace autotrain
