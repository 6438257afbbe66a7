#include "optim/preconditioned_norm.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>

#include "device/caching_allocator.h"
#include "support/optimizers.h"
#include "support/run_workbench.h"
#include "support/support.h"

namespace autotrain {
namespace {

constexpr double kEpsilon = 0.01;  // beside second moments near 1: it counts

// Five roundings of float32 for each element and two of their norm, squared.
constexpr double kRounding = 14 * 0x1p-24;

OptimizerRecipe adam_recipe(const std::string& algorithm) {
  OptimizerRecipe r;
  r.algorithm = {algorithm, {{"epsilon", kEpsilon}, {"beta2", 0.9}}};
  r.weight_decay = 0.1;
  r.groups = {{.match = {"*.bias"}, .lr_factor = 0.5}};
  return r;
}

// More than a slice holds, images whose channels lie last, and small ones.
std::vector<NamedTensor> tensors() {
  torch::manual_seed(1);
  const torch::Tensor image = torch::randn({8, 5, 3, 3}).contiguous(torch::MemoryFormat::ChannelsLast);
  return {{"first.image", image.requires_grad_()},
          {"first.bias", torch::randn({37}).requires_grad_()},
          {"large", torch::randn({521, 1031}).requires_grad_()},
          {"last.bias", torch::randn({3}).requires_grad_()}};
}

std::unique_ptr<Optimizer> learned(const std::string& algorithm, const std::vector<NamedTensor>& all,
                                   int64_t updates = 3) {
  auto optimizer = make_optimizer(adam_recipe(algorithm), {all});
  for (int64_t step = 0; step < updates; ++step) {
    test::set_gradients(all, step);
    optimizer->apply(test::update_with(0.01));
  }
  test::set_gradients(all, updates, 1024);
  return optimizer;
}

const std::vector<torch::Tensor>& state_of(const Optimizer& optimizer, const std::string& name) {
  return std::ranges::find(optimizer.states(), name, &Optimizer::State::name)->tensors;
}

double in_double(const Optimizer& optimizer, int64_t updates) {
  double sum = 0;
  for (size_t i = 0; i < optimizer.parameters().size(); ++i) {
    const torch::Tensor gradient = optimizer.parameters()[i].tensor.grad();
    if (!gradient.defined()) continue;
    const torch::Tensor v = state_of(optimizer, "exp_avg_sq")[i].to(torch::kFloat64);
    const torch::Tensor root = (v / (1 - std::pow(0.9, updates))).sqrt() + kEpsilon;
    sum += (gradient.to(torch::kFloat64) / root).masked_fill(v == 0, 0).square().sum().item<double>();
  }
  return sum;
}

// A test below holds this against the optimizers. Asking them here would compute before the first test, in
// every process that has this file.
const std::vector<std::string> kAdamAndItsLike = {"adam", "adamw", "lamb", "nadamw"};

class PreconditionedNormOf : public testing::TestWithParam<std::string> {};

TEST_P(PreconditionedNormOf, IsThatOfADirectComputationInDouble) {
  const auto all = tensors();
  const auto optimizer = learned(GetParam(), all);
  PreconditionedNorm norm(*optimizer);
  for (const bool some_without_gradient : {false, true}) {
    if (some_without_gradient) all[1].tensor.mutable_grad().reset();
    const double expected = in_double(*optimizer, 3);
    EXPECT_NEAR(norm.squared().item<double>(), expected, kRounding * expected);
  }
}

TEST_P(PreconditionedNormOf, CountsNoElementThatHasHadNoGradientYet) {
  const auto all = tensors();
  const auto optimizer = learned(GetParam(), all);
  state_of(*optimizer, "exp_avg_sq")[1].zero_();
  const double expected = in_double(*optimizer, 3);
  EXPECT_NEAR(PreconditionedNorm(*optimizer).squared().item<double>(), expected, kRounding * expected);
  all[3].tensor.mutable_grad()[1] = INFINITY;
  EXPECT_FALSE(std::isfinite(PreconditionedNorm(*optimizer).squared().item<double>()));
}

TEST_P(PreconditionedNormOf, IsNoNumberBeforeTheFirstUpdate) {
  const auto all = tensors();
  const auto optimizer = learned(GetParam(), all, 0);
  EXPECT_TRUE(std::isnan(PreconditionedNorm(*optimizer).squared().item<double>()));
}

TEST_P(PreconditionedNormOf, ChangesNeitherGradientsNorState) {
  const auto all = tensors();
  const auto optimizer = learned(GetParam(), all);
  std::vector<torch::Tensor> live, before;
  for (const NamedTensor& p : all) live.push_back(p.tensor.grad());
  for (const NamedTensor& state : optimizer->state()) live.push_back(state.tensor);
  for (const torch::Tensor& each : live) before.push_back(each.clone());
  PreconditionedNorm(*optimizer).squared();
  for (size_t i = 0; i < live.size(); ++i) EXPECT_TRUE(live[i].equal(before[i])) << i;
}

INSTANTIATE_TEST_SUITE_P(Optimizers, PreconditionedNormOf, testing::ValuesIn(kAdamAndItsLike),
                         [](const auto& instance) { return instance.param; });

TEST(PreconditionedNorm, IsOfThoseThatKeepASecondMoment) {
  for (const std::string& name : test::optimizer_names()) {
    OptimizerRecipe r;
    r.algorithm = {name, {}};
    const auto optimizer = make_optimizer(r, {tensors()});
    const bool keeps = std::ranges::count(optimizer->states(), "exp_avg_sq", &Optimizer::State::name) > 0;
    EXPECT_EQ(optimizer->second_moment().has_value(), keeps) << name;
    EXPECT_EQ(std::ranges::count(kAdamAndItsLike, name) > 0, keeps) << name;
  }
}

// Of the first micro-batch all have a gradient; those whose turn it is not lose it when the window ends.
TEST(PreconditionedNorm, IsOfThoseAloneWhoseTurnItIs) {
  const auto all = tensors();
  OptimizerRecipe r = adam_recipe("adamw");
  r.groups = {{.match = {"large"}, .every = 2}};
  const auto optimizer = make_optimizer(r, {all});
  test::set_gradients(all, 0);
  optimizer->apply(test::update_with(0.01));
  test::set_gradients(all, 1);
  PreconditionedNorm norm(*optimizer);
  const auto in_update = [&](int64_t update) {
    optimizer->begin_update({.update = update});
    return norm.squared().item<double>();
  };
  const double alone = in_update(3), together = in_update(4);
  EXPECT_LT(alone, together);
  all[2].tensor.mutable_grad().reset();
  EXPECT_EQ(in_update(4), alone);
}

TEST(PreconditionedNorm, OfAViewOfSomethingLargerIsTheSame) {
  torch::manual_seed(1);
  const torch::Tensor view = torch::randn({40, 30}).slice(1, 3, 17).t().requires_grad_();
  const auto optimizer = learned("nadamw", {{"view.bias", view}});
  const double expected = in_double(*optimizer, 3);
  EXPECT_NEAR(PreconditionedNorm(*optimizer).squared().item<double>(), expected, kRounding * expected);
}

TEST(PreconditionedNorm, HasTheSameBitsForAnyNumberOfThreads) {
  const int threads = at::get_num_threads();
  const auto optimizer = learned("adamw", tensors());
  std::vector<double> squares;
  for (const int count : {1, 2, 3}) {
    at::set_num_threads(count);
    squares.push_back(PreconditionedNorm(*optimizer).squared().item<double>());
  }
  at::set_num_threads(threads);
  EXPECT_EQ(squares, std::vector(3, squares[0]));
}

// A statistic must not take memory that a larger micro-batch could have.
TEST(PreconditionedNorm, TakesScalarsAloneBesideItsSlice) {
  const auto device = open_run_device(test::small_recipe());  // whose allocator counts
  const auto optimizer = learned("adamw", tensors());
  int64_t largest = 0;
  CachingAllocator::process_wide().set_fault([&](int64_t bytes, MemoryPhase) {
    largest = std::max(largest, bytes);
    return false;
  });
  PreconditionedNorm norm(*optimizer);
  const int64_t slice = std::exchange(largest, 0);
  norm.squared();
  CachingAllocator::process_wide().set_fault({});
  EXPECT_EQ(slice, 1 << 20);
  EXPECT_GT(largest, 0);
  EXPECT_LE(largest, 64);
}

}  // namespace
}  // namespace autotrain
