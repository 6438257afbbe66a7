#include "device/kernel_caches.h"

#include <gtest/gtest.h>
#include <torch/nn/modules/rnn.h>

#include "base/units.h"
#include "device/system_memory.h"

namespace autotrain {
namespace {

TEST(KernelCaches, AreBoundedByTheBudgetFromBothSides) {
  EXPECT_EQ(kernel_cache_capacity(kMiB), 64);
  EXPECT_EQ(kernel_cache_capacity(256 * kMiB), 256);
  EXPECT_EQ(kernel_cache_capacity(100 * kGiB), 1024);
  EXPECT_LE(kernel_cache_bytes(256 * kMiB), 32 * kMiB);
}

// Kernels map addresses that they hardly touch: data_bytes has them all.
TEST(KernelCaches, ReleasedKernelsGiveTheirMemoryBack) {
  const torch::NoGradGuard no_gradients;
  torch::nn::LSTM lstm(torch::nn::LSTMOptions(24, 48).num_layers(2));
  const auto run = [&](int64_t samples) { return std::get<0>(lstm->forward(torch::ones({8, samples, 24}))); };
  const torch::Tensor before = run(3);
  release_kernels();
  const int64_t start = ProcessMemory::now().data_bytes;
  for (int64_t samples = 4; samples < 16; ++samples) run(samples);
  const int64_t grown = ProcessMemory::now().data_bytes - start;
  if (grown < 8 * kMiB) GTEST_SKIP() << "kernels for twelve shapes take only " << grown << " bytes here";
  release_kernels();
  EXPECT_LT(ProcessMemory::now().data_bytes - start, grown / 2);
  EXPECT_TRUE(run(3).equal(before)) << "compiled again, they compute the same";
}

}  // namespace
}  // namespace autotrain
