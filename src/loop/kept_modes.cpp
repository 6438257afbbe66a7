#include "loop/kept_modes.h"

namespace autotrain {

// `train` goes down to the parts, which come after what they are in.
void KeptModes::keep(torch::nn::Module& module) {
  if (!module.is_training()) {
    module.train();
    for (const auto& [part, training] : parts_) {
      if (part->is_training() != training) part->train(training);
    }
    return;
  }
  parts_.clear();
  for (const auto& part : module.modules(/*include_self=*/false))
    parts_.emplace_back(part, part->is_training());
}

}  // namespace autotrain
