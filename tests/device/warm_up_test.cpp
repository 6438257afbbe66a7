#include "device/warm_up.h"

#include "base/text.h"
#include "support/support.h"

namespace autotrain {
namespace {

at::Generator cpu_generator() {
  return at::make_generator<at::CPUGeneratorImpl>(7);
}

// What a GPU is warmed up with also runs on a CPU, which here stands in for one.
TEST(WarmUp, MakesEveryPassAndMovesNoGeneratorButItsOwn) {
  torch::manual_seed(3);
  const torch::Tensor before = at::globalContext().defaultGenerator(torch::kCPU).get_state();
  const at::NoGradGuard as_a_caller_may_have_it;
  const auto failed = warm_up_gpu({.device = torch::kCPU,
                                   .generator = cpu_generator(),
                                   .products = {torch::kFloat32, torch::kBFloat16, torch::kFloat16}});
  EXPECT_TRUE(failed.empty()) << join(failed, "\n");
  EXPECT_TRUE(at::globalContext().defaultGenerator(torch::kCPU).get_state().equal(before));
  EXPECT_FALSE(at::GradMode::is_enabled());
}

TEST(WarmUp, NamesThePassesThatCannotBeMadeAndMakesTheOthers) {
  const auto failed = warm_up_gpu(
      {.device = torch::kCPU, .generator = cpu_generator(), .products = {torch::kInt32, torch::kFloat32}});
  ASSERT_EQ(failed.size(), 4u) << join(failed, "\n");
  for (const std::string& pass : failed) EXPECT_TRUE(test::holds(pass, " in Int: "));
}

}  // namespace
}  // namespace autotrain
