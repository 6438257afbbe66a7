#include "model/small_form.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <limits>
#include <map>
#include <utility>
#include <vector>

namespace autotrain {
namespace {

// Of one of two values, in an order that no byte repeats.
torch::Tensor of_two(int64_t count, torch::ScalarType type, double low, double high) {
  torch::manual_seed(count);
  const torch::Tensor high_ones = torch::rand({count}) < 0.7;
  return torch::where(high_ones, torch::full({count}, high, torch::kFloat64),
                      torch::full({count}, low, torch::kFloat64))
      .to(type);
}

void expect_restored(const SmallForm& form, const torch::Tensor& whole) {
  const torch::Tensor restored = form.restored();
  EXPECT_EQ(restored.scalar_type(), whole.scalar_type());
  EXPECT_EQ(restored.sizes(), whole.sizes());
  EXPECT_EQ(restored.strides(), whole.strides());
  EXPECT_TRUE(restored.equal(whole));
}

TEST(SmallForm, TwoValuesTakeABitEach) {
  for (const auto type :
       {torch::kBool, torch::kUInt8, torch::kBFloat16, torch::kFloat16, torch::kFloat32, torch::kFloat64}) {
    for (const int64_t count : {1, 7, 8, 9, 64, 1001, 300'003}) {
      const torch::Tensor whole = of_two(count, type, 0, type == torch::kBool ? 1 : 1.25);
      const auto form = SmallForm::of_two_values(whole);
      ASSERT_TRUE(form) << type << " " << count;
      EXPECT_EQ(form->nbytes(), (count + 7) / 8);
      expect_restored(*form, whole);
    }
  }
}

TEST(SmallForm, TheSignOfZeroAndWhatIsNoNumberAreValues) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const auto& [low, high] : std::vector<std::pair<double, double>>{{0.0, -0.0}, {nan, 1}, {2, 2}}) {
    const torch::Tensor whole = of_two(100, torch::kFloat32, low, high);
    const auto form = SmallForm::of_two_values(whole);
    ASSERT_TRUE(form);
    EXPECT_TRUE(form->restored().view(torch::kInt32).equal(whole.view(torch::kInt32)));
  }
}

TEST(SmallForm, AThirdValueIsSeenWhereverItIs) {
  for (const int64_t at : {0, 1, 500, 1000, 1002}) {
    torch::Tensor whole = of_two(1003, torch::kFloat32, 0, 2);
    whole[at] = 3;
    EXPECT_FALSE(SmallForm::of_two_values(whole)) << at;
  }
  torch::Tensor truths = torch::zeros({100}, torch::kUInt8);
  truths[50] = 2;
  EXPECT_FALSE(SmallForm::of_two_values(truths.view(torch::kBool))) << "a truth of another byte";
}

TEST(SmallForm, ATensorLiesInMemoryAsItLay) {
  const torch::Tensor whole = of_two(2 * 3 * 5 * 7, torch::kBool, 0, 1).view({2, 3, 5, 7});
  for (const torch::Tensor& tensor :
       {whole.contiguous(torch::MemoryFormat::ChannelsLast), whole.transpose(0, 3).clone()}) {
    const auto form = SmallForm::of_two_values(tensor);
    ASSERT_TRUE(form);
    expect_restored(*form, tensor);
  }
  EXPECT_FALSE(SmallForm::of_two_values(whole.slice(3, 0, 7, 2))) << "with gaps";
  EXPECT_FALSE(SmallForm::of_two_values(whole.slice(0, 0, 1))) << "a part of a larger memory";
  EXPECT_FALSE(SmallForm::of_two_values(torch::ones({3, 1}, torch::kBool).expand({3, 8}))) << "repeated";
  EXPECT_FALSE(SmallForm::of_two_values(torch::ones({0}, torch::kBool)));
}

TEST(SmallForm, IndicesTakeTheLeastTypeThatHoldsThem) {
  const std::map<int64_t, int64_t> bytes_by_bound = {
      {1, 1}, {256, 1}, {257, 2}, {1 << 15, 2}, {32769, 4}, {int64_t{1} << 31, 4}, {100'000, 4}};
  for (const auto& [bound, bytes] : bytes_by_bound) {
    torch::Tensor whole = torch::randint(bound, {2, 3, 5, 7}, torch::kInt64);
    whole.view(-1)[0] = bound - 1;
    whole.view(-1)[1] = 0;
    for (const torch::Tensor& tensor : {whole, whole.contiguous(torch::MemoryFormat::ChannelsLast)}) {
      const auto form = SmallForm::of_indices(tensor, bound);
      ASSERT_TRUE(form) << bound;
      EXPECT_EQ(form->nbytes(), bytes * tensor.numel()) << bound;
      expect_restored(*form, tensor);
    }
  }
  EXPECT_FALSE(SmallForm::of_indices(torch::zeros({8}, torch::kInt64), (int64_t{1} << 31) + 1));
}

}  // namespace
}  // namespace autotrain
