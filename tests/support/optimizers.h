#pragma once

#include <nlohmann/json.hpp>

#include "optim/optimizer.h"

// What tests of optimizers and schedules share.
namespace autotrain::test {

inline torch::Tensor scalar(float value) {
  return torch::full({}, value);
}

/// An update with a rate known on the host.
inline Optimizer::Update update_with(double lr, float scale = 1, bool skipped = false) {
  return {.lr = lr, .grad_scale = scalar(scale), .found_inf = scalar(skipped ? 1.0f : 0.0f)};
}

/// Random gradients, the same ones for a step.
inline void set_gradients(const std::vector<NamedTensor>& all, int64_t step, double factor = 1) {
  torch::manual_seed(static_cast<uint64_t>(100 + step));
  for (const NamedTensor& p : all) p.tensor.mutable_grad() = torch::randn_like(p.tensor) * factor;
}

/// The value of a recipe's key.
inline Value value_of(const nlohmann::json& json) {
  if (json.is_string()) return json.get<std::string>();
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_integer()) return json.get<int64_t>();
  return json.get<double>();
}

/// Of every optimizer that a recipe can name.
inline std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const OptimizerRow& row : optimizer_table()) names.push_back(row.spec.name);
  return names;
}

}  // namespace autotrain::test
