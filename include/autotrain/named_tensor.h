#pragma once

#include <torch/types.h>

#include <string>

namespace autotrain {

struct NamedTensor {
  std::string name = {};
  torch::Tensor tensor = {};
};

}  // namespace autotrain
