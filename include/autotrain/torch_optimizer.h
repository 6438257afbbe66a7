#pragma once

#include <torch/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "autotrain/task.h"

namespace torch::optim {
class Optimizer;
}

namespace autotrain {

/// An optimizer of LibTorch's kind (`torch::optim::Adam`, a subclass of one's own) over some of a module's
/// parameters. Each trained parameter belongs to one.
///
/// It steps when an update's mean gradient is in place, clipped; not for an update that is skipped. What it
/// keeps is saved and resumed by its own `save` and `load`: what these do not carry makes it refused before
/// training. In trials another one, made likewise, works on copies. Its `step` gets no closure: one that asks
/// for the loss again (`torch::optim::LBFGS`) is refused. Each rank computes all of it.
struct TorchOptimizer {
  std::string name = {};  ///< of what it keeps, in checkpoints: letters, digits, _

  /// Names of its parameters, `*` for any text. No parameter in two optimizers.
  std::vector<std::string> match = {"*"};

  /// Makes it, its learning rate within. Called several times, with the parameters and with copies of them:
  /// alike each time.
  std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<torch::Tensor> parameters)> make = {};

  /// Whether it steps in this update; where not, the gradients of its parameters are dropped, before norm and
  /// clipping. Depends on `info` alone. Empty: always.
  std::function<bool(const UpdateInfo& info)> turn = {};
};

}  // namespace autotrain
