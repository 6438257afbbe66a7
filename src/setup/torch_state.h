#pragma once

#include <torch/optim/optimizer.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "autotrain/named_tensor.h"

namespace autotrain {

/// What an optimizer of LibTorch's kind saves (`save`, `load`), as tensors of a fixed form: those of a
/// checkpoint. Archives name parameters by their addresses; here they have their numbers.
class TorchState {
 public:
  /// An archive within the saved one, or a value.
  struct Leaf {
    std::vector<std::string> path = {};
    c10::IValue value = {};
    bool archive = false;
  };

  /// The form is that of what `stepped` saves now: after a step in which all of its parameters had a
  /// gradient.
  /// @param name of the optimizer, in tensors and errors. @param parameters their names, in its order.
  TorchState(std::string name, std::vector<std::string> parameters, const torch::optim::Optimizer& stepped);

  /// The tensors, in main memory. Zero until `take`.
  const std::vector<NamedTensor>& tensors() const { return tensors_; }

  /// Gives the tensors what the optimizer keeps after so many steps.
  /// @throws Error(kBrokenContract) when it has another form than it had.
  void take(const torch::optim::Optimizer& from, int64_t steps);

  /// To be called when the tensors were read that were saved while the parameters had another order: whether
  /// a value is there is told by places, which follow that order.
  /// @param saved names of what was read, in the order that `tensors` had then.
  /// @throws Error(kBadData) where they do not tell the order.
  void reorder(const std::vector<std::string>& saved);

  /// How many steps the tensors are after.
  int64_t steps() const { return steps_.item<int64_t>(); }

  /// Gives what the tensors hold to an optimizer that was just made. Precondition: `steps` is not 0.
  void give(torch::optim::Optimizer& to) const;

 private:
  std::vector<Leaf> leaves_of(const torch::optim::Optimizer& optimizer,
                              std::optional<torch::Device> device = {}) const;
  [[noreturn]] void fail_form(const std::string& what) const;
  std::optional<size_t> parameter_of(const Leaf& leaf) const;

  const std::string name_;
  const std::vector<std::string> parameters_;
  std::vector<Leaf> form_;           // sorted by path
  std::vector<torch::Tensor> held_;  // of each leaf; undefined: it is as it is in the form
  torch::Tensor there_, steps_;      // [leaves] uint8: whether there is such a leaf; scalar int64
  std::vector<NamedTensor> tensors_;
  std::map<std::string, size_t> parameter_of_tensor_;  // by name, where it is one parameter's
};

/// The parameters of all its groups, in order.
std::vector<torch::Tensor> parameters_of(const torch::optim::Optimizer& optimizer);

}  // namespace autotrain
