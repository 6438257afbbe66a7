#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <utility>
#include <vector>

namespace autotrain {

/// Which parts of a module are in training mode, from one window to the next. Code of the program's that runs
/// between them (callbacks, `after_step`) may put the module in evaluation mode, to look at what it predicts,
/// and leave it so; it may also freeze parts of one that goes on training.
class KeptModes {
 public:
  /// Where the module itself came out of training mode since the last call, each part is in the mode again
  /// that it had then. Otherwise all modes are noted. Before the first call the module must be in training
  /// mode.
  void keep(torch::nn::Module& module);

 private:
  std::vector<std::pair<std::shared_ptr<torch::nn::Module>, bool>> parts_;  // in training mode or not
};

}  // namespace autotrain
