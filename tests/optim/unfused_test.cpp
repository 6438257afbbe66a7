// What holds for every optimizer, those of plain kernels above all.
#include "optim/unfused.h"

#include <ATen/Parallel.h>

#include <cmath>
#include <cstring>

#include "device/caching_allocator.h"
#include "support/optimizers.h"
#include "support/run_workbench.h"
#include "support/support.h"

namespace autotrain {
namespace {

std::vector<NamedTensor> three_tensors() {
  torch::manual_seed(1);
  const torch::Tensor image = torch::randn({8, 5, 3, 3}).contiguous(torch::MemoryFormat::ChannelsLast);
  return {{"image", image.requires_grad_()},
          {"bias", torch::randn({37}).requires_grad_()},
          {"matrix", torch::randn({53, 29}).requires_grad_()}};
}

void learn(Optimizer& optimizer, int64_t first, int64_t last, double lr = 0.01) {
  for (int64_t step = first; step < last; ++step) {
    test::set_gradients(optimizer.parameters(), step);
    optimizer.apply(test::update_with(lr));
  }
}

bool same_bits(const torch::Tensor& a, const torch::Tensor& b) {
  const torch::Tensor x = a.detach().contiguous(), y = b.detach().contiguous();
  return x.nbytes() == y.nbytes() && std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

void expect_same(const std::vector<NamedTensor>& a, const std::vector<NamedTensor>& b, const char* why = "") {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i)
    EXPECT_TRUE(same_bits(a[i].tensor, b[i].tensor)) << a[i].name << ' ' << why;
}

std::vector<NamedTensor> copies(const std::vector<NamedTensor>& all) {
  std::vector<NamedTensor> copied;
  for (const NamedTensor& each : all) copied.push_back({each.name, each.tensor.detach().clone()});
  return copied;
}

class Algorithm : public testing::TestWithParam<std::string> {
 protected:
  static OptimizerRecipe recipe() {
    OptimizerRecipe r;
    r.algorithm = {GetParam(), {}};
    if (GetParam() == "sgd") r.algorithm.parameters["momentum"] = 0.9;
    r.weight_decay = 0.1;
    return r;
  }
};

TEST_P(Algorithm, ASkippedUpdateChangesNoBit) {
  const auto all = three_tensors();
  const auto optimizer = make_optimizer(recipe(), {all});
  for (const bool learned : {false, true}) {
    if (learned) learn(*optimizer, 0, 2);
    const torch::NoGradGuard no_gradients;
    for (const NamedTensor& p : all) p.tensor.narrow(0, 0, 2).fill_(-0.0);
    const auto before = copies(all), state = copies(optimizer->state());
    for (const float bad : {INFINITY, NAN, 1.0f}) {
      for (const NamedTensor& p : all) p.tensor.mutable_grad() = torch::full_like(p.tensor, bad);
      optimizer->apply(test::update_with(0.1, 1024, /*skipped=*/true));
      expect_same(all, before);
      expect_same(optimizer->state(), state);
    }
  }
}

std::vector<NamedTensor> many_tensors() {
  std::vector<NamedTensor> all = three_tensors();
  for (const int64_t size : {1, 7, 64, 200}) {
    all.push_back({"bias" + std::to_string(size), torch::randn({size}).requires_grad_()});
    all.push_back({"matrix" + std::to_string(size), torch::randn({size, 3}).requires_grad_()});
  }
  // Not all of its memory is its own, and its gradient is laid out otherwise.
  all.push_back({"slice", torch::randn({6, 8}).slice(1, 1, 6).detach().requires_grad_()});
  return all;
}

// As a GPU does it: several together, by kernels over lists.
TEST_P(Algorithm, HowManyTensorsAreUpdatedAtOnceChangesNoBit) {
  std::vector<std::vector<NamedTensor>> parameters, states;
  for (const int64_t together : {0, 500, 1 << 20}) {
    parameters.push_back(many_tensors());
    Trained trained{.parameters = parameters.back()};
    trained.together = together;
    OptimizerRecipe r = recipe();
    r.groups = {{.match = {"matrix*"}, .lr_factor = 0.5}};
    const auto optimizer = make_optimizer(r, std::move(trained));
    for (int64_t step = 0; step < 20; ++step) {
      test::set_gradients(parameters.back(), step);
      if (step % 3 == 0) parameters.back()[1].tensor.mutable_grad().reset();
      if (step == 11) parameters.back()[2].tensor.mutable_grad().fill_(NAN);
      optimizer->apply(test::update_with(0.01, 3, /*skipped=*/step == 11));
    }
    states.push_back(copies(optimizer->state()));
  }
  for (const size_t i : {1, 2}) {
    expect_same(parameters[i], parameters[0]);
    expect_same(states[i], states[0]);
  }
}

TEST_P(Algorithm, DividesGradientsByTheirScale) {
  const auto scaled = three_tensors(), divided = three_tensors();
  const auto one = make_optimizer(recipe(), {scaled}), other = make_optimizer(recipe(), {divided});
  for (int64_t step = 0; step < 3; ++step) {
    test::set_gradients(scaled, step);
    test::set_gradients(divided, step);
    for (const NamedTensor& p : divided) p.tensor.mutable_grad().div_(3);
    one->apply(test::update_with(0.01, 3));
    other->apply(test::update_with(0.01));
  }
  expect_same(scaled, divided);
  expect_same(one->state(), other->state());
}

TEST_P(Algorithm, WithoutARateNoParameterMoves) {
  const auto all = three_tensors();
  const auto before = copies(all);
  learn(*make_optimizer(recipe(), {all}), 0, 3, /*lr=*/0);
  expect_same(all, before);
}

TEST_P(Algorithm, GoesOnFromItsStateExactly) {
  const auto straight = three_tensors(), resumed = three_tensors();
  const auto whole = make_optimizer(recipe(), {straight}), first = make_optimizer(recipe(), {resumed});
  learn(*whole, 0, 6);
  learn(*first, 0, 3);
  const auto second = make_optimizer(recipe(), {resumed});
  const auto from = first->state(), into = second->state();
  for (size_t i = 0; i < from.size(); ++i) into[i].tensor.copy_(from[i].tensor);
  learn(*second, 3, 6);
  expect_same(straight, resumed);
  expect_same(whole->state(), second->state());
}

TEST_P(Algorithm, AnyNumberOfThreadsComesToTheSameBits) {
  const int threads = at::get_num_threads();
  std::vector<std::vector<NamedTensor>> all;
  for (const int count : {1, 2, 3}) {
    at::set_num_threads(count);
    torch::manual_seed(2);
    all.push_back({{"large", torch::randn({311, 977}).requires_grad_()}});
    learn(*make_optimizer(recipe(), {all.back()}), 0, 3);
  }
  at::set_num_threads(threads);
  expect_same(all[1], all[0]);
  expect_same(all[2], all[0]);
}

// Memory that runs out in the middle of an update could not be recovered from.
TEST_P(Algorithm, AllocatesNothingWhileItUpdates) {
  const auto device = open_run_device(test::small_recipe());  // whose allocator counts
  auto all = three_tensors();
  // LibTorch's fused kernels copy a gradient whose channels lie last.
  all[0].tensor = all[0].tensor.detach().contiguous().requires_grad_();
  OptimizerRecipe r = recipe();
  r.groups = {{.match = {"matrix"}, .lr_factor = 0.5}};
  const auto optimizer = make_optimizer(r, {all});
  test::set_gradients(all, 0);
  const torch::Tensor rate = torch::full({}, 0.01, torch::kFloat64), found = test::scalar(0),
                      scale = test::scalar(2);
  std::vector<int64_t> allocated;
  for (const bool on_device : {false, true}) {
    for (const bool skipped : {false, true}) {
      found.fill_(skipped ? 1 : 0);
      CachingAllocator::process_wide().set_fault([&](int64_t bytes, MemoryPhase) {
        allocated.push_back(bytes);
        return false;
      });
      optimizer->apply({.lr = 0.01,
                        .lr_on_device = on_device ? rate : torch::Tensor(),
                        .grad_scale = scale,
                        .found_inf = found});
      CachingAllocator::process_wide().set_fault({});
    }
  }
  EXPECT_EQ(allocated, std::vector<int64_t>());
  const torch::Tensor seen = torch::empty({3});
  CachingAllocator::process_wide().set_fault([&](int64_t bytes, MemoryPhase) {
    allocated.push_back(bytes);
    return false;
  });
  seen.clone();
  CachingAllocator::process_wide().set_fault({});
  EXPECT_EQ(allocated.size(), 1u) << "an allocation would have been seen";
}

INSTANTIATE_TEST_SUITE_P(Optimizers, Algorithm, testing::ValuesIn(test::optimizer_names()),
                         [](const auto& instance) { return instance.param; });

class Adapting : public testing::TestWithParam<std::string> {};

// A tensor of one dimension has the ratio 1.
TEST_P(Adapting, ATensorOfZerosHasTheRatioOne) {
  for (const bool no_gradient : {false, true}) {
    const torch::Tensor matrix = torch::zeros({4, 3}).requires_grad_(),
                        vector = torch::zeros({12}).requires_grad_();
    OptimizerRecipe r;
    r.algorithm = {GetParam(), {}};
    const auto optimizer = make_optimizer(r, {{{"matrix", matrix}, {"vector", vector}}});
    torch::manual_seed(1);
    vector.mutable_grad() = no_gradient ? torch::zeros({12}) : torch::randn({12});
    matrix.mutable_grad() = vector.grad().clone().view({4, 3});
    optimizer->apply(test::update_with(0.01));
    EXPECT_TRUE(same_bits(matrix.view({12}), vector));
    EXPECT_EQ(matrix.detach().abs().max().item<float>() > 0, !no_gradient);
  }
}

TEST_P(Adapting, AStepIsAsLargeAsTheWeightsSay) {
  std::vector<double> steps;
  for (const double size : {1.0, 4.0}) {
    torch::manual_seed(1);
    const torch::Tensor matrix = (torch::randn({40, 30}) * size).requires_grad_();
    OptimizerRecipe r;
    r.algorithm = {GetParam(), {}};
    const torch::Tensor before = matrix.detach().clone();
    const auto optimizer = make_optimizer(r, {{{"matrix", matrix}}});
    matrix.mutable_grad() = torch::randn({40, 30});
    optimizer->apply(test::update_with(0.01));
    steps.push_back((matrix.detach() - before).norm().item<double>());
  }
  EXPECT_NEAR(steps[1] / steps[0], 4, 1e-3);
}

// As that of LayerNorm([4, 4]).
TEST_P(Adapting, ANormalisationWeightOfTwoSizesMovesAsAVectorDoes) {
  torch::manual_seed(1);
  const torch::Tensor norm = torch::full({4, 4}, 3.f).requires_grad_(),
                      vector = torch::full({16}, 3.f).requires_grad_(),
                      matrix = torch::full({4, 4}, 3.f).requires_grad_();
  OptimizerRecipe r;
  r.algorithm = {GetParam(), {}};
  Trained trained{.parameters = {{"norm", norm}, {"vector", vector}, {"matrix", matrix}}};
  trained.decayed = {false, false, true};
  const auto optimizer = make_optimizer(r, std::move(trained));
  norm.mutable_grad() = torch::randn({4, 4});
  vector.mutable_grad() = norm.grad().clone().view({16});
  matrix.mutable_grad() = norm.grad().clone();
  optimizer->apply(test::update_with(0.01));
  EXPECT_TRUE(same_bits(norm.view({16}), vector));
  EXPECT_FALSE(same_bits(norm, matrix));
}

INSTANTIATE_TEST_SUITE_P(Optimizers, Adapting, testing::Values("lars", "lamb"),
                         [](const auto& instance) { return instance.param; });

TEST(Optimizers, ScratchIsOfWhatIsUpdatedAtOnce) {
  const auto scratch = [](int64_t together) {
    OptimizerRecipe r;
    r.algorithm = {"lion", {}};
    Trained trained{.parameters = three_tensors()};  // of 360, 37 and 1537 elements
    trained.together = together;
    return make_optimizer(r, std::move(trained))->scratch_bytes() / 4;
  };
  EXPECT_EQ(scratch(0), 1537);
  EXPECT_EQ(scratch(1600), 1600);
  EXPECT_EQ(scratch(1 << 20), 384 + 64 + 1568);
}

TEST(Optimizers, TheirStateIsAsLargeAsTheyDeclare) {
  for (const OptimizerRow& row : optimizer_table()) {
    OptimizerRecipe r;
    r.algorithm = {row.spec.name, {}};
    const auto optimizer = make_optimizer(r, {three_tensors()});
    EXPECT_EQ(static_cast<int64_t>(optimizer->states().size()), moments_per_weight(r)) << row.spec.name;
  }
}

}  // namespace
}  // namespace autotrain
