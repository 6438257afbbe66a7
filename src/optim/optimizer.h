#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/flat_layout.h"
#include "base/named_tensor.h"
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
};

/// Applies updates with LibTorch's fused kernels, in place and without host synchronisation.
///
/// All state is allocated at construction, so that memory is the same at every update. Biases and
/// normalisation weights (parameters of fewer than two dimensions) are not decayed unless asked.
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

  /// Uses and does not clear the parameters' gradients; parameters without one are left alone. Allocates no
  /// tensor, so that it cannot fail half way for lack of memory.
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

  /// Everything an exact continuation needs besides the parameters, or this rank's part of it. The live
  /// tensors, named `exp_avg.conv1.weight`, in a fixed order.
  std::vector<NamedTensor> state() const;

  int64_t state_bytes() const;

 protected:
  /// Parameters that share hyper-parameters, with what this update needs of them.
  struct Group {
    double weight_decay = 0;
    std::vector<size_t> members;  ///< numbers of parameters, or of pieces where sharded
  };

  /// The lists a fused kernel takes, of the members that have a gradient now.
  struct Lists {
    std::vector<torch::Tensor> parameters, gradients;
    std::vector<size_t> members;
  };

  struct Decay {
    double weight_decay = 0;
    bool decay_all = false;
  };

  Optimizer(Trained trained, Decay decay);

  /// One more state, zero.
  std::vector<torch::Tensor>& add_state(const std::string& name);

  /// A scalar of the whole optimizer, float32 and zero, on the parameters' device.
  torch::Tensor add_scalar(const std::string& name);

  virtual void before_groups(const Update&) {}
  virtual void apply_group(const Group& group, const Lists& lists, const Update& update) = 0;

  /// The elements of a per-parameter state that belong to `lists`.
  static std::vector<torch::Tensor> select(const std::vector<torch::Tensor>& all, const Lists& lists);

 private:
  size_t members() const { return sharded() ? pieces().size() : parameters().size(); }
  const NamedTensor& parameter_of(size_t member) const;
  torch::Tensor own_part(const torch::Tensor& tensor, size_t member) const;

  Trained trained_;
  std::vector<Group> groups_;
  std::deque<State> states_;  // subclasses refer to them
  std::vector<NamedTensor> scalars_;
};

struct OptimizerRow {
  ChoiceSpec spec;
  bool adaptive = false;  ///< divides by a running root mean square, so sqrt scaling is better founded
  std::function<int64_t(const Parameters&)> moments;  ///< float32 numbers that are kept for each weight
  std::function<std::unique_ptr<Optimizer>(const Parameters&, const OptimizerRecipe&, Trained)> make;
};

/// Every optimizer a recipe can name.
const std::vector<OptimizerRow>& optimizer_table();

/// @throws Error(kBadRecipe) when there is no such optimizer.
const OptimizerRow& find_optimizer(const std::string& name);

/// How many float32 numbers the recipe's optimizer keeps for each weight.
int64_t moments_per_weight(const OptimizerRecipe& recipe);

std::unique_ptr<Optimizer> make_optimizer(const OptimizerRecipe& recipe, Trained trained);

}  // namespace autotrain
