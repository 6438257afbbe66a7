#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "setup/assembly.h"

namespace autotrain::test {

/// Copies of the buffers, in order.
inline std::vector<torch::Tensor> buffers_of(const Workbench& bench) {
  std::vector<torch::Tensor> all;
  for (const auto& item : bench.task->module().named_buffers()) all.push_back(item.value().clone());
  return all;
}

/// Copies of everything that training changes: parameters, buffers, moments, scaler, generator.
inline std::vector<torch::Tensor> everything(const Workbench& bench) {
  std::vector<torch::Tensor> all = buffers_of(bench);
  for (const NamedTensor& p : bench.optimizer->parameters()) all.push_back(p.tensor.detach().clone());
  for (const NamedTensor& state : bench.optimizer->state()) all.push_back(state.tensor.clone());
  for (const NamedTensor& state : bench.scaler.state()) all.push_back(state.tensor.clone());
  all.push_back(at::globalContext().defaultGenerator(torch::kCPU).get_state());
  return all;
}

inline void expect_equal(const std::vector<torch::Tensor>& a, const std::vector<torch::Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(a[i].equal(b[i])) << "tensor " << i;
}

}  // namespace autotrain::test
