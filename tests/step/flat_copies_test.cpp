#include "step/flat_copies.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "device/caching_allocator.h"
#include "support/run_workbench.h"
#include "support/small_run.h"
#include "support/support.h"

namespace autotrain {
namespace {

bool same_bits(const torch::Tensor& a, const torch::Tensor& b) {
  const torch::Tensor x = a.contiguous(), y = b.contiguous();
  if (x.nbytes() == 0 || y.nbytes() == 0) return x.nbytes() == y.nbytes();  // without memory to compare
  return x.nbytes() == y.nbytes() && std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

torch::Tensor special(torch::ScalarType type) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return torch::tensor({0.0, -0.0, 1e-42, kInfinity, -kInfinity, kNan, -kNan, 3.5}, torch::kFloat64).to(type);
}

// Of every layout that buffers have: none of their numbers is one that arithmetic could give back.
std::vector<torch::Tensor> some_tensors(torch::ScalarType type) {
  const torch::Tensor image = special(type).repeat({15}).view({1, 5, 4, 6});
  return {special(type), torch::full({}, -0.0, type), image.contiguous(torch::MemoryFormat::ChannelsLast),
          special(type).repeat({4}).view({4, 8}).slice(1, 1, 6), torch::empty({0}, type)};
}

class FlatCopiesOf : public testing::TestWithParam<torch::ScalarType> {};

TEST_P(FlatCopiesOf, PutBackTheBitsUnlessTheNewOnesAreKept) {
  for (const bool kept : {false, true}) {
    const auto live = some_tensors(GetParam());
    FlatCopies copies(live, /*selects=*/true);
    copies.save();
    std::vector<torch::Tensor> wanted;
    for (const torch::Tensor& tensor : live) {
      wanted.push_back(tensor.clone());
      tensor.fill_(1);
      if (kept) wanted.back() = tensor.clone();
    }
    copies.restore_unless(torch::full({}, kept, torch::kBool));
    for (size_t i = 0; i < live.size(); ++i) EXPECT_TRUE(same_bits(live[i], wanted[i])) << i << ' ' << kept;
  }
}

TEST_P(FlatCopiesOf, PutBackWhatWasSavedLast) {
  const auto live = some_tensors(GetParam());
  FlatCopies copies(live, /*selects=*/false);
  copies.save();
  live[0].fill_(1);
  copies.save();
  live[0].zero_();
  copies.restore();
  EXPECT_TRUE(same_bits(live[0], torch::ones({8}, GetParam())));
}

INSTANTIATE_TEST_SUITE_P(Types, FlatCopiesOf,
                         testing::Values(torch::kFloat32, torch::kFloat64, torch::kHalf, torch::kBFloat16,
                                         torch::kInt64, torch::kBool),
                         [](const auto& instance) { return c10::toString(instance.param); });

TEST(FlatCopies, PuttingBackAllocatesNothing) {
  const auto device = open_run_device(test::small_recipe());  // whose allocator counts
  FlatCopies copies(some_tensors(torch::kFloat32), /*selects=*/true);
  const torch::Tensor keep = torch::zeros({}, torch::kBool);
  int64_t allocated = 0;
  CachingAllocator::process_wide().set_fault([&](int64_t, MemoryPhase) { return ++allocated, false; });
  copies.save();
  copies.restore_unless(keep);
  copies.restore();
  const int64_t by_copies = allocated;
  const torch::Tensor seen = torch::empty({3});
  CachingAllocator::process_wide().set_fault({});
  EXPECT_EQ(by_copies, 0);
  EXPECT_EQ(allocated, 1) << "an allocation would have been seen";
}

}  // namespace
}  // namespace autotrain
