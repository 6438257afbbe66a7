#include "lr/range_test.h"

#include <cmath>
#include <stdexcept>

#include "loop/window_runner.h"
#include "plan/planner.h"
#include "support/run_workbench.h"
#include "support/snapshot.h"
#include "support/support.h"

namespace autotrain {
namespace {

using test::everything;
using test::expect_equal;
using test::SmallNet;

constexpr double kFactor = 1.1;

BatchPlan plan_of(const Recipe& recipe, int64_t micro_batch) {
  BatchPlan plan;
  plan.effective_batch = recipe.batch.effective.value();
  plan.micro_batch = micro_batch;
  plan.lr = learning_rate_plan(recipe, plan.effective_batch);
  return plan;
}

// ½ Σ λᵢ xᵢ², whatever the samples are.
class Quadratic final : public Task {
 public:
  Quadratic(const std::vector<float>& curvatures, const std::vector<float>& start)
      : curvatures_(torch::tensor(curvatures)) {
    x_ = module_->register_parameter("x", torch::tensor(start));
  }
  torch::nn::Module& module() override { return *module_; }
  LossTerms loss(const Batch& batch) override {
    const auto count = static_cast<double>(batch.samples);
    return {count * 0.5 * (curvatures_ * x_.square()).sum(), torch::tensor(count)};
  }

 private:
  struct Holder : torch::nn::Module {};
  std::shared_ptr<Holder> module_ = std::make_shared<Holder>();
  torch::Tensor curvatures_, x_;
};

Recipe quadratic_recipe(double momentum) {
  Recipe recipe = test::small_recipe();
  recipe.optimizer.algorithm = {"sgd", {{"momentum", momentum}}};
  recipe.batch.effective = 4;
  return recipe;
}

struct Case {
  double momentum;
  float start;  // along the direction of the largest curvature
};

class QuadraticEdge : public testing::TestWithParam<Case> {};

// Gradient descent with momentum μ on a quadratic converges up to 2(1 + μ) ÷ λ of its largest curvature λ
// (Polyak 1964; Goh 2017, distill.pub/2017/momentum).
TEST_P(QuadraticEdge, IsWithinAGridStepOfTheTheory) {
  const auto [momentum, start] = GetParam();
  const auto data = test::small_data(64);
  const Recipe recipe = quadratic_recipe(momentum);
  const auto bench = test::make_workbench(
      recipe,
      std::make_unique<Quadratic>(std::vector<float>{100, 10, 1, 0.1F}, std::vector<float>{start, 1, 1, 1}),
      data);
  const auto found =
      range_test(*bench, plan_of(recipe, 2), {.from = 1e-5, .factor = kFactor, .stretches = 2});
  const double edge = 2 * (1 + momentum) / 100;
  for (const RateStretch& stretch : found) {
    ASSERT_TRUE(stretch.edge);
    EXPECT_NEAR(std::log(*stretch.edge / edge), 0, std::log(kFactor) * 1.001) << *stretch.edge;
    ASSERT_TRUE(stretch.steepest);
    EXPECT_LT(*stretch.steepest, edge);
    EXPECT_TRUE(stretch.valley_end) << "the growing rate diverged, which ended the valley";
  }
  EXPECT_GT(found[0].points.back().lr, edge * kFactor) << "by growing alone the edge is seen too late";
}

INSTANTIATE_TEST_SUITE_P(Quadratics, QuadraticEdge,
                         testing::Values(Case{0, 1}, Case{0, 0.03F}, Case{0.5, 0.03F}, Case{0.9, 1},
                                         Case{0.9, 0.03F}));

TEST(RangeTest, OfRatesThatAllHoldHasNoEdge) {
  const auto data = test::small_data(64);
  const Recipe recipe = quadratic_recipe(0);
  const auto bench = test::make_workbench(
      recipe, std::make_unique<Quadratic>(std::vector<float>{1}, std::vector<float>{1}), data);
  const auto low = range_test(*bench, plan_of(recipe, 4), {.from = 1e-3, .to = 1, .stretches = 1});
  EXPECT_FALSE(low[0].diverges);
  EXPECT_FALSE(low[0].edge);
  EXPECT_FALSE(low[0].valley_end) << "the loss is still low at the end of the grid";
  const auto high = range_test(*bench, plan_of(recipe, 4), {.from = 3, .to = 10, .stretches = 1});
  EXPECT_TRUE(high[0].diverges);
  EXPECT_FALSE(high[0].edge);
}

// The windows from `first` up to `end`, as the loop runs them.
void train(Workbench& bench, const BatchPlan& plan, int64_t first, int64_t end) {
  const WindowCut cut{plan.effective_batch, plan.micro_batch, bench.lanes};
  Loader loader(*bench.data.train, bench.stream,
                endless_windows(*bench.data.train, bench.stream, cut, first * plan.effective_batch),
                bench.loader);
  for (int64_t window = first; window < end; ++window) {
    bench.average.set_update_samples(plan.effective_batch);
    ASSERT_TRUE(accumulate_window(bench, loader, cut, window));
    bench.step.prepare(plan.lr.scaled);
    bench.step.commit().read();
  }
}

std::vector<torch::Tensor> state_of(const Workbench& bench) {
  std::vector<torch::Tensor> all = everything(bench);
  for (const NamedTensor& average : bench.average.state()) all.push_back(average.tensor.clone());
  return all;
}

struct Setting {
  const char* optimizer;
  Precision precision;
  SmallNet::Middle middle;
};

class RangeTestTrace : public testing::TestWithParam<Setting> {
 protected:
  RangeTestTrace() {
    recipe.optimizer.algorithm = {GetParam().optimizer, {}};
    recipe.optimizer.clip_norm = 1;
    recipe.average.half_life = 100;
    recipe.execution.precision = GetParam().precision;
    recipe.execution.lanes = 2;
  }
  std::unique_ptr<Workbench> bench() const {
    return test::make_workbench(recipe, test::small_task(GetParam().middle), data);
  }

  const TensorDataset data = test::small_data(200);
  Recipe recipe = test::small_recipe();
};

TEST_P(RangeTestTrace, TrainingAfterItGivesTheSameBytes) {
  const BatchPlan plan = plan_of(recipe, 7);
  const RangeTestOptions options = {.from = 1e-4, .to = 1e4, .factor = 2, .stretches = 2, .held_updates = 5};
  const auto plain = bench();
  train(*plain, plan, 0, 6);
  const auto trained = state_of(*plain);
  const auto tested = bench();
  for (const int64_t first : {0, 3}) {  // before the first update, and in the middle
    const auto before = state_of(*tested);
    range_test(*tested, plan, options);
    expect_equal(state_of(*tested), before);
    for (const NamedTensor& p : tested->optimizer->parameters()) EXPECT_FALSE(p.tensor.grad().defined());
    train(*tested, plan, first, first + 3);
  }
  expect_equal(state_of(*tested), trained);
}

TEST_P(RangeTestTrace, NothingIsLeftWhereItWasBrokenOff) {
  const auto tested = bench();
  const auto before = state_of(*tested);
  int64_t updates = 0;
  const auto break_off = [&](const RangeProgress&) {
    if (++updates == 20) throw std::runtime_error("enough");
  };
  EXPECT_THROW(range_test(*tested, plan_of(recipe, 7), {.on_update = break_off}), std::runtime_error);
  expect_equal(state_of(*tested), before);
}

INSTANTIATE_TEST_SUITE_P(Settings, RangeTestTrace,
                         testing::Values(Setting{"adamw", Precision::kFp32, SmallNet::Middle::kBatchNorm},
                                         Setting{"adamw", Precision::kFp16, SmallNet::Middle::kDropout},
                                         Setting{"sgd", Precision::kBf16, SmallNet::Middle::kNothing},
                                         Setting{"lamb", Precision::kFp32, SmallNet::Middle::kDropout}));

TEST(RangeTest, StretchesAreDifferentSamplesOfTheStream) {
  const auto data = test::small_data(2000);
  const Recipe recipe = test::small_recipe();
  const auto bench = test::make_workbench(recipe, test::small_task(), data);
  const auto found = range_test(*bench, plan_of(recipe, 32),
                                {.from = 1e-3, .to = 1e-1, .factor = 10, .held_updates = 4, .position = 64});
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].position, 64);
  EXPECT_EQ(found[1].position, 64 + 5 * 32);
  EXPECT_EQ(found[2].position, 64 + 10 * 32);
  EXPECT_NE(found[0].start_loss, found[1].start_loss);
  EXPECT_EQ(found[0].points.size(), 3U);
}

TEST(RangeTest, RatesOfGroupsAreTheirFactorTimesTheGrids) {
  const auto data = test::small_data(64);
  Recipe recipe = quadratic_recipe(0);
  const auto edge = [&] {
    const auto bench = test::make_workbench(
        recipe, std::make_unique<Quadratic>(std::vector<float>{100}, std::vector<float>{1}), data);
    return range_test(*bench, plan_of(recipe, 4), {.from = 1e-4, .stretches = 1})[0].edge.value();
  };
  const double plain = edge();
  recipe.optimizer.groups = {{.match = {"x"}, .lr_factor = 0.1}};
  EXPECT_NEAR(std::log(edge() / plain), std::log(10), std::log(1.1) * 1.001);
}

TEST(RangeTest, CopiesAreAsLargeAsWhatUpdatesChange) {
  const auto data = test::small_data(64);
  const Recipe recipe = test::small_recipe();
  const auto bench = test::make_workbench(recipe, test::small_task(), data);
  const int64_t weights = (6 + 1) * 16 + (16 + 1) * 4;
  EXPECT_GE(restored_bytes(*bench), 3 * 4 * weights) << "adamw keeps two moments of each";
  EXPECT_LT(restored_bytes(*bench), 4 * 4 * weights);
}

}  // namespace
}  // namespace autotrain
