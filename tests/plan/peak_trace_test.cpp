#include "plan/peak_trace.h"

#include <torch/nn/modules/linear.h>

#include <numeric>

#include "autotrain/task.h"
#include "support/run_workbench.h"
#include "support/snapshot.h"

namespace autotrain {
namespace {

// exp and sin of something wide: their derivatives take a result and an argument.
struct WideNet : torch::nn::Module {
  static constexpr int64_t kWidth = 500;
  torch::nn::Linear wide{nullptr}, out{nullptr};

  WideNet() {
    wide = register_module("wide", torch::nn::Linear(6, kWidth));
    out = register_module("out", torch::nn::Linear(kWidth, 4));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return out->forward(at::sin(at::exp(0.1 * wide->forward(x))));
  }
};

PeakTrace peak_of_wide_net(int64_t micro_batch) {
  const auto data = test::small_data(256);
  torch::manual_seed(1);
  const auto bench = test::make_workbench(test::small_recipe(),
                                          supervised(std::make_shared<WideNet>(), cross_entropy()), data);
  return trace_peak(*bench, micro_batch, micro_batch);
}

const PeakTensor* made_by(const PeakTrace& peak, const std::string& operation) {
  for (const PeakTensor& tensor : peak.tensors) {
    if (tensor.made_by.operation == operation) return &tensor;
  }
  return nullptr;
}

TEST(PeakTrace, TellsWhatFillsTheMemoryAndWhatItIsKeptFor) {
  constexpr int64_t kSamples = 128;
  const PeakTrace peak = peak_of_wide_net(kSamples);
  const PeakTensor* const exp = made_by(peak, "aten::exp");
  ASSERT_NE(exp, nullptr);
  EXPECT_EQ(exp->shape, (std::vector<int64_t>{kSamples, WideNet::kWidth}));
  EXPECT_EQ(exp->bytes, kSamples * WideNet::kWidth * 4);
  EXPECT_EQ(exp->made_in, MemoryPhase::kForward);
  EXPECT_EQ(exp->made_by.module, "wide");
  EXPECT_EQ(exp->kept_for.operation, "aten::mul") << "its gradient is the result times what comes back";
  EXPECT_EQ(peak.phase, MemoryPhase::kBackward);
  EXPECT_TRUE(std::ranges::is_sorted(peak.tensors, std::greater(), &PeakTensor::bytes));
}

TEST(PeakTrace, ItsTensorsAddUpAndTheAllocatorCountedNoLess) {
  const PeakTrace peak = peak_of_wide_net(128);
  int64_t sum = 0;
  for (const PeakTensor& tensor : peak.tensors) sum += tensor.bytes;
  EXPECT_EQ(sum, peak.made_bytes);
  EXPECT_GT(peak.held_before_bytes, 0);
  EXPECT_GE(peak.measured_bytes, peak.held_before_bytes + peak.made_bytes);
  // All but the samples themselves and what one operation takes beside its result, which are no wider.
  EXPECT_LE(peak.measured_bytes - peak.held_before_bytes - peak.made_bytes, 2 * 128 * WideNet::kWidth * 4);
}

TEST(PeakTrace, TwiceTheSamplesMakeWhatDependsOnThemTwiceAsLarge) {
  const PeakTensor half = *made_by(peak_of_wide_net(64), "aten::exp"),
                   whole = *made_by(peak_of_wide_net(128), "aten::exp");
  EXPECT_EQ(2 * half.bytes, whole.bytes);
}

TEST(PeakTrace, LeavesNoTrace) {
  const auto data = test::small_data(256);
  const auto bench =
      test::make_workbench(test::small_recipe(), test::small_task(test::SmallNet::Middle::kBatchNorm), data);
  const auto before = test::everything(*bench);
  trace_peak(*bench, 16, 32);
  test::expect_equal(test::everything(*bench), before);
}

}  // namespace
}  // namespace autotrain
