#include "device/host_copies.h"

#include "support/support.h"

namespace autotrain {
namespace {

TEST(HostCopies, ArePlainOnesThatLieAsTheTensorsDo) {
  const torch::Tensor image =
      torch::randn({2, 3, 4, 5}).contiguous(torch::MemoryFormat::ChannelsLast).requires_grad_();
  const torch::Tensor part = torch::arange(20).view({4, 5}).slice(1, 1, 3);
  const auto copies = copy_to_plain_memory({image, part});
  copies->wait();
  ASSERT_EQ(copies->tensors().size(), 2u);
  EXPECT_EQ(copies->tensors()[0].strides(), image.strides());
  EXPECT_FALSE(copies->tensors()[0].requires_grad());
  const torch::Tensor before = part.clone();
  part.zero_();
  EXPECT_TRUE(copies->tensors()[0].equal(image));
  EXPECT_TRUE(copies->tensors()[1].equal(before));
}

}  // namespace
}  // namespace autotrain
