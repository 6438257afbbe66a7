#include "step/update_step.h"

#include <ATen/autocast_mode.h>

#include <cmath>
#include <functional>
#include <set>

#include "base/random.h"
#include "data/stream.h"
#include "step/autocast.h"
#include "support/replaying_recorder.h"
#include "support/support.h"
#include "support/tasks.h"

namespace autotrain {
namespace {

using test::SmallNet;

// A task whose samples have weights of their own and whose loss can be made non-finite.
class WeightedTask final : public Task {
 public:
  explicit WeightedTask(std::shared_ptr<SmallNet> net) : net_(std::move(net)) {}
  torch::nn::Module& module() override { return *net_; }
  LossTerms loss(const Batch& batch) override {
    const torch::Tensor weights = batch.inputs.select(1, 0).abs();
    const torch::Tensor losses = at::cross_entropy_loss(net_->forward(batch.inputs).to(torch::kFloat32),
                                                        batch.targets, {}, at::Reduction::None);
    torch::Tensor sum = (losses * weights).sum();
    if (poison) sum = sum * INFINITY;
    return {sum, zero_weight ? torch::zeros({}) : weights.sum()};
  }
  torch::Tensor penalty() override {
    return with_penalty ? 0.1 * net_->first->weight.square().sum() : torch::Tensor();
  }
  bool poison = false, zero_weight = false, with_penalty = false;

 private:
  std::shared_ptr<SmallNet> net_;
};

// A step over a fresh net with equal weights each time.
struct Bench {
  explicit Bench(StepOptions options = {}, bool dynamic = false, ScalerRecipe scaler_recipe = {},
                 SmallNet::Middle middle = SmallNet::Middle::kNothing, const OptimizerRecipe& recipe = sgd())
      : net(make_net(middle)),
        task(net),
        optimizer(make_optimizer(recipe, {trainable_parameters(*net)})),
        scaler(scaler_recipe, dynamic, torch::kCPU),
        step(task, *optimizer, scaler, options) {}

  static std::shared_ptr<SmallNet> make_net(SmallNet::Middle middle) {
    torch::manual_seed(11);
    return std::make_shared<SmallNet>(middle);
  }
  static OptimizerRecipe sgd() {
    OptimizerRecipe recipe;
    recipe.algorithm = {"sgd", {{"momentum", 0.9}}};
    return recipe;
  }

  UpdateOutcome update(const Batch& all, const std::vector<int64_t>& cut, double lr = 0.1,
                       UpdateStep::Apply apply = UpdateStep::Apply::kYes) {
    int64_t offset = 0;
    for (const int64_t samples : cut) {
      const auto part = [&](const torch::Tensor& t) { return t.slice(0, offset, offset + samples); };
      step.accumulate({part(all.inputs), part(all.targets), samples}, window, offset);
      offset += samples;
    }
    ++window;
    return step.finish(lr, apply).read();
  }

  torch::Tensor flat() const {
    std::vector<torch::Tensor> bench;
    for (const NamedTensor& p : optimizer->parameters()) bench.push_back(p.tensor.detach().flatten());
    return torch::cat(bench);
  }
  std::vector<torch::Tensor> everything() const {
    std::vector<torch::Tensor> all = {flat().clone()};
    for (const NamedTensor& state : optimizer->state()) all.push_back(state.tensor.clone());
    return all;
  }

  std::shared_ptr<SmallNet> net;
  WeightedTask task;
  std::unique_ptr<Optimizer> optimizer;
  GradScaler scaler;
  UpdateStep step;
  int64_t window = 0;
};

Batch make_batch(int64_t samples, uint64_t seed) {
  const auto data = test::small_data(samples, seed);
  std::vector<int64_t> indices(static_cast<size_t>(samples)), epochs(static_cast<size_t>(samples), 0);
  for (size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<int64_t>(i);
  return data.get(indices, SampleRandom(0, indices, epochs));
}

bool equal(const std::vector<torch::Tensor>& a, const std::vector<torch::Tensor>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (!a[i].equal(b[i])) return false;
  }
  return a.size() == b.size();
}

std::vector<int64_t> random_cut(int64_t samples, Random& random) {
  std::vector<int64_t> cut;
  while (samples > 0) {
    cut.push_back(1 + random.below(samples));
    samples -= cut.back();
  }
  return cut;
}

// float32 sums in another order: a few units in the last place over a few dozen terms.
constexpr double kRounding = 2e-5;

class StepCut : public testing::TestWithParam<int> {};

TEST_P(StepCut, AnyCutGivesTheUpdateOfTheWholeBatch) {
  Random random(static_cast<uint64_t>(GetParam()));
  const int64_t samples = 2 + random.below(60);
  const Batch batch = make_batch(samples, static_cast<uint64_t>(GetParam()));
  StepOptions options;
  options.loss_factor = loss_factor_for(static_cast<double>(samples));
  if (GetParam() % 2 == 0) options.clip_norm = 0.05;  // below the norm, so that clipping acts
  Bench whole(options), cut(options);
  whole.task.with_penalty = cut.task.with_penalty = GetParam() % 3 == 0;
  for (int update = 0; update < 3; ++update) {
    const UpdateOutcome a = whole.update(batch, {samples});
    const UpdateOutcome b = cut.update(batch, random_cut(samples, random));
    EXPECT_TRUE(a.applied && b.applied);
    EXPECT_NEAR(a.loss, b.loss, kRounding * std::abs(a.loss));
    EXPECT_NEAR(a.grad_norm, b.grad_norm, kRounding * a.grad_norm);
    EXPECT_NEAR(a.weight, b.weight, kRounding * a.weight);
    EXPECT_LE((whole.flat() - cut.flat()).abs().max().item<double>(), kRounding);
  }
}

INSTANTIATE_TEST_SUITE_P(Random, StepCut, testing::Range(0, 40));

TEST(UpdateStep, ThePowerOfTwoBeforeBackwardChangesNoBit) {
  const Batch batch = make_batch(24, 1);
  Bench plain, scaled({.loss_factor = 1.0 / 32});
  for (int update = 0; update < 5; ++update) {
    EXPECT_EQ(plain.update(batch, {10, 10, 4}).loss, scaled.update(batch, {10, 10, 4}).loss);
  }
  EXPECT_TRUE(plain.flat().equal(scaled.flat()));
}

TEST(UpdateStep, TheGradientIsThatOfTheWeightedMean) {
  const Batch batch = make_batch(16, 2);
  Bench bench;
  const torch::Tensor weights = batch.inputs.select(1, 0).abs();
  const torch::Tensor losses =
      at::cross_entropy_loss(bench.net->forward(batch.inputs), batch.targets, {}, at::Reduction::None);
  const torch::Tensor mean = (losses * weights).sum() / weights.sum();
  mean.backward();
  double norm = 0;
  for (const NamedTensor& p : bench.optimizer->parameters())
    norm += p.tensor.grad().square().sum().item<double>();
  bench.step.abandon();
  const UpdateOutcome outcome = bench.update(batch, {7, 9});
  EXPECT_NEAR(outcome.loss, mean.item<double>(), 1e-6);
  EXPECT_NEAR(outcome.grad_norm, std::sqrt(norm), 1e-5);
}

// The first of every lane: what a window of these samples alone has.
double first_squares(const Batch& batch, const std::vector<int64_t>& offsets, int64_t samples) {
  double sum = 0;
  for (const int64_t offset : offsets) {
    const auto part = [&](const torch::Tensor& t) { return t.slice(0, offset, offset + samples); };
    const UpdateOutcome alone = Bench().update({part(batch.inputs), part(batch.targets), samples}, {samples});
    sum += alone.weight * alone.grad_norm * alone.grad_norm;
  }
  return sum;
}

TEST(UpdateStep, TellsTheNormsOfTheFirstMicroBatchAndOfTheWindow) {
  const Batch batch = make_batch(37, 3);
  const UpdateOutcome whole = Bench().update(batch, {37});
  for (const bool clipped : {false, true}) {
    StepOptions options{.loss_factor = 0.125, .statistics = true};
    if (clipped) options.clip_norm = 0.01;
    Bench bench(options, /*dynamic=*/true);
    bench.task.with_penalty = clipped;
    const WindowNorms norms = bench.update(batch, {10, 20, 7}).norms;
    const double expected = first_squares(batch, {0}, 10);
    EXPECT_EQ(norms.firsts, 1);
    EXPECT_NEAR(norms.first_squares, expected, kRounding * expected);
    EXPECT_NEAR(norms.weight, whole.weight, kRounding * whole.weight);
    EXPECT_NEAR(std::sqrt(norms.square), whole.grad_norm, kRounding * whole.grad_norm)
        << "without the penalty, before clipping";
  }
  EXPECT_EQ(Bench().update(batch, {10, 20, 7}).norms.firsts, 0) << "nobody asked";
}

TEST(UpdateStep, TellsTheNormsOfTheFirstMicroBatchOfEveryLane) {
  const Batch batch = make_batch(24, 3);
  Bench bench({.lanes = 4, .statistics = true});
  for (int64_t offset = 0; offset < 24; offset += 6) {
    const auto part = [&](const torch::Tensor& t) { return t.slice(0, offset, offset + 6); };
    const Batch lane{part(batch.inputs), part(batch.targets), 6};
    if (offset == 18) break;  // a lane without samples
    bench.step.accumulate({lane.inputs.slice(0, 0, 4), lane.targets.slice(0, 0, 4), 4}, 0, offset);
    bench.step.accumulate({lane.inputs.slice(0, 4, 6), lane.targets.slice(0, 4, 6), 2}, 0, offset + 4);
    bench.step.end_lane();
  }
  const WindowNorms norms = bench.step.finish(0.1).read().norms;
  const double expected = first_squares(batch, {0, 6, 12}, 4);
  EXPECT_EQ(norms.firsts, 3);
  EXPECT_NEAR(norms.first_squares, expected, kRounding * expected);
}

TEST(UpdateStep, StatisticsChangeNoBit) {
  const Batch batch = make_batch(30, 4);
  for (const int64_t lanes : {1, 2}) {
    Bench with({.clip_norm = 0.05, .lanes = lanes, .statistics = true}),
        without({.clip_norm = 0.05, .lanes = lanes});
    for (int update = 0; update < 5; ++update) {
      with.update(batch, {12, 12, 6});
      without.update(batch, {12, 12, 6});
    }
    EXPECT_TRUE(equal(with.everything(), without.everything()));
  }
}

// ------------------------------------------------------------------ norms in the optimizer's metric

constexpr double kEpsilon = 1e-3;  // beside gradients of some hundredths: it counts

OptimizerRecipe adam_like(const std::string& algorithm) {
  OptimizerRecipe recipe;
  recipe.algorithm = {algorithm, {{"beta2", 0.9}, {"epsilon", kEpsilon}}};
  recipe.weight_decay = 0.01;
  recipe.groups = {{.match = {"second.*"}, .lr_factor = 0.1}};
  return recipe;
}

const StepOptions kBothNorms{.loss_factor = 0.125, .statistics = true, .preconditioned_norms = true};

Bench adam_bench(const std::string& algorithm, const StepOptions& options = kBothNorms) {
  return Bench(options, /*dynamic=*/true, {}, SmallNet::Middle::kNothing, adam_like(algorithm));
}

// Σ (g ÷ (√v̂ + ε))² of the mean gradient over parts of a batch, in float64, with the second moment as it is.
double preconditioned_square(Bench& bench, const Batch& batch,
                             const std::vector<std::pair<int64_t, int64_t>>& parts) {
  double weight = 0;
  for (const auto& [first, last] : parts) {
    const LossTerms terms =
        bench.task.loss({batch.inputs.slice(0, first, last), batch.targets.slice(0, first, last)});
    weight += terms.weight.item<double>();
    terms.sum.backward();
  }
  const Optimizer::SecondMoment& moment = *bench.optimizer->second_moment();
  const double correction = 1 - std::pow(0.9, moment.updates.max().item<double>());
  double sum = 0;
  for (size_t i = 0; i < bench.optimizer->parameters().size(); ++i) {
    const torch::Tensor gradient =
        bench.optimizer->parameters()[i].tensor.grad().to(torch::kFloat64) / weight;
    const torch::Tensor root = (moment.values[i].to(torch::kFloat64) / correction).sqrt() + kEpsilon;
    sum += (gradient / root).square().sum().item<double>();
  }
  bench.step.abandon();
  return sum;
}

class AdamLike : public testing::TestWithParam<std::string> {};

TEST_P(AdamLike, TellsTheNormsInItsMetricFromBeforeTheUpdate) {
  const Batch batch = make_batch(37, 3);
  for (const bool clipped : {false, true}) {
    StepOptions options = kBothNorms;
    if (clipped) options.clip_norm = 0.01;
    Bench bench = adam_bench(GetParam(), options);
    bench.task.with_penalty = clipped;
    for (int update = 0; update < 3; ++update)
      EXPECT_EQ(bench.update(batch, {10, 20, 7}).preconditioned_norms.firsts, 0) << "nobody asked";
    const double first = preconditioned_square(bench, batch, {{0, 10}});
    const double whole = preconditioned_square(bench, batch, {{0, 10}, {10, 30}, {30, 37}});
    bench.step.set_statistics(true, true);
    const UpdateOutcome outcome = bench.update(batch, {10, 20, 7});
    const WindowNorms& norms = outcome.preconditioned_norms;
    EXPECT_EQ(norms.firsts, 1);
    EXPECT_EQ(norms.first_weight, outcome.norms.first_weight);
    EXPECT_NEAR(norms.first_squares / norms.first_weight, first, kRounding * first);
    EXPECT_NEAR(norms.square, whole, kRounding * whole) << "without the penalty, before clipping";
    EXPECT_GT(norms.square, 2 * outcome.norms.square) << "the metric makes a difference";
  }
}

TEST_P(AdamLike, NormsInItsMetricChangeNoBit) {
  const Batch batch = make_batch(30, 4);
  for (const int64_t lanes : {1, 2}) {
    StepOptions options = kBothNorms;
    options.lanes = lanes;
    Bench with = adam_bench(GetParam(), options), without = adam_bench(GetParam(), {.lanes = lanes});
    with.step.set_statistics(true, true);
    for (int update = 0; update < 5; ++update) {
      with.update(batch, {12, 12, 6});
      without.update(batch, {12, 12, 6});
    }
    EXPECT_TRUE(equal(with.everything(), without.everything()));
  }
}

INSTANTIATE_TEST_SUITE_P(Algorithms, AdamLike, testing::Values("adam", "adamw", "nadamw", "lamb"),
                         [](const auto& instance) { return instance.param; });

TEST(UpdateStep, ASkippedWindowLeavesTheMetricAsItWas) {
  const Batch batch = make_batch(24, 3);
  Bench bench = adam_bench("adamw");
  bench.update(batch, {12, 12});
  bench.step.set_statistics(true, true);
  const WindowNorms before =
      bench.update(batch, {12, 12}, 0.1, UpdateStep::Apply::kForceSkip).preconditioned_norms;
  const WindowNorms again =
      bench.update(batch, {12, 12}, 0.1, UpdateStep::Apply::kForceSkip).preconditioned_norms;
  EXPECT_GT(before.square, 0);
  EXPECT_EQ(again.square, before.square);
  EXPECT_EQ(again.first_squares, before.first_squares);
}

TEST(UpdateStep, WithoutASecondMomentThereIsNoOtherMetric) {
  const Batch batch = make_batch(24, 3);
  Bench bench(kBothNorms);
  bench.step.set_statistics(true, true);
  const UpdateOutcome outcome = bench.update(batch, {12, 12});
  EXPECT_EQ(outcome.norms.firsts, 1);
  EXPECT_EQ(outcome.preconditioned_norms.firsts, 0);
}

// ------------------------------------------------------------------ what an update leaves

TEST(UpdateStep, ClippingLimitsTheStep) {
  const Batch batch = make_batch(16, 2);
  Bench clipped({.clip_norm = 0.01});
  const torch::Tensor before = clipped.flat().clone();
  const UpdateOutcome outcome = clipped.update(batch, {16}, /*lr=*/1.0);
  EXPECT_GT(outcome.grad_norm, 0.01) << "the norm is reported before clipping";
  EXPECT_NEAR((clipped.flat() - before).norm().item<double>(), 0.01, 1e-5);
}

TEST(UpdateStep, AWindowWithANonFiniteGradientMovesNothingButTheScale) {
  const Batch batch = make_batch(12, 3);
  ScalerRecipe recipe;
  recipe.initial_scale = 1024;
  Bench bench({}, /*dynamic=*/true, recipe);
  bench.update(batch, {6, 6});
  const auto before = bench.everything();
  bench.task.poison = true;
  const UpdateOutcome outcome = bench.update(batch, {6, 6});
  EXPECT_FALSE(outcome.applied);
  EXPECT_FALSE(std::isfinite(outcome.loss)) << "the truth is reported";
  EXPECT_TRUE(equal(bench.everything(), before));
  EXPECT_EQ(bench.scaler.scale().item<double>(), 512);
  bench.task.poison = false;
  EXPECT_TRUE(bench.update(batch, {6, 6}).applied);
  EXPECT_FALSE(equal(bench.everything(), before));
}

TEST(UpdateStep, AWindowWithoutWeightIsSkipped) {
  const Batch batch = make_batch(12, 3);
  Bench bench;
  const auto before = bench.everything();
  bench.task.zero_weight = true;
  EXPECT_FALSE(bench.update(batch, {12}).applied);
  EXPECT_TRUE(equal(bench.everything(), before));
}

TEST(UpdateStep, AForcedSkipRunsEverythingAndMovesNothing) {
  const Batch batch = make_batch(12, 3);
  Bench bench;
  bench.update(batch, {12});
  const auto before = bench.everything();
  const UpdateOutcome outcome = bench.update(batch, {5, 7}, 0.1, UpdateStep::Apply::kForceSkip);
  EXPECT_TRUE(std::isfinite(outcome.loss));
  EXPECT_TRUE(equal(bench.everything(), before));
}

TEST(UpdateStep, GradientsLiveOnlyInsideTheWindow) {
  const Batch batch = make_batch(8, 3);
  Bench bench;
  bench.step.accumulate(batch, 0, 0);
  EXPECT_TRUE(bench.net->first->weight.grad().defined());
  bench.step.abandon();
  EXPECT_FALSE(bench.net->first->weight.grad().defined());
  bench.update(batch, {8});
  EXPECT_FALSE(bench.net->first->weight.grad().defined());
}

TEST(UpdateStep, AnAbandonedWindowPutsBackTheStatisticsOfBatchNormalisation) {
  const Batch batch = make_batch(8, 3);
  Bench bench({}, false, {}, SmallNet::Middle::kBatchNorm);
  for (int round = 0; round < 2; ++round) {
    const torch::Tensor before = bench.net->norm->running_mean.clone();
    bench.step.accumulate(batch, 0, 0);
    bench.step.accumulate(batch, 0, 8);
    EXPECT_FALSE(bench.net->norm->running_mean.equal(before));
    bench.step.abandon();
    EXPECT_TRUE(bench.net->norm->running_mean.equal(before));
    bench.update(batch, {8});
    EXPECT_FALSE(bench.net->norm->running_mean.equal(before)) << "a finished window keeps them";
  }
}

TEST(UpdateStep, NamesTheFirstParameterThatIsNotFinite) {
  const Batch batch = make_batch(8, 3);
  Bench bench;
  bench.step.accumulate(batch, 0, 0);
  EXPECT_EQ(bench.step.first_non_finite_gradient(), "");
  bench.net->second->weight.mutable_grad()[0][0] = NAN;
  EXPECT_EQ(bench.step.first_non_finite_gradient(), "second.weight");
}

TEST(UpdateStep, DropoutMasksDependOnWindowAndOffsetOnly) {
  const Batch batch = make_batch(12, 3);
  Bench a({.seed = 5}, false, {}, SmallNet::Middle::kDropout),
      b({.seed = 5}, false, {}, SmallNet::Middle::kDropout),
      other({.seed = 6}, false, {}, SmallNet::Middle::kDropout);
  torch::manual_seed(123);
  const UpdateOutcome first = a.update(batch, {6, 6});
  torch::manual_seed(456);
  torch::rand({100});
  EXPECT_EQ(b.update(batch, {6, 6}).loss, first.loss) << "the global generator does not matter";
  EXPECT_NE(other.update(batch, {6, 6}).loss, first.loss);
}

TEST(UpdateStep, ATaskThatReturnsNoScalarIsToldSo) {
  struct Broken final : Task {
    torch::nn::Module& module() override { return net; }
    LossTerms loss(const Batch& batch) override { return {net.forward(batch.inputs), torch::ones({})}; }
    SmallNet net;
  } broken;
  auto optimizer = make_optimizer({}, {trainable_parameters(broken.module())});
  GradScaler scaler({}, false, torch::kCPU);
  UpdateStep step(broken, *optimizer, scaler, {});
  const Error error =
      test::expect_error(ExitCode::kBrokenContract, [&] { step.accumulate(make_batch(4, 1), 0, 0); });
  EXPECT_TRUE(test::holds(error.what(), "scalar"));
}

TEST(UpdateStep, Float16WithTheScalerLearnsAndRecoversFromOverflow) {
  const Batch batch = make_batch(32, 4);
  ScalerRecipe recipe;
  recipe.initial_scale = 0x1p40;  // overflows float16 until it has backed off
  Bench bench({.precision = Precision::kFp16, .loss_factor = 1.0 / 32}, /*dynamic=*/true, recipe);
  int skipped = 0;
  double first = 0, last = 0;
  for (int update = 0; update < 80; ++update) {
    const UpdateOutcome outcome = bench.update(batch, {16, 16});
    skipped += outcome.applied ? 0 : 1;
    if (update == 0) first = outcome.loss;
    last = outcome.loss;
  }
  EXPECT_GT(skipped, 5);
  EXPECT_LT(skipped, 60);
  EXPECT_LT(last, first);
}

// Without clearing the cache the second forward would multiply with weights from before the change.
TEST(Autocast, WeightsThatChangedAreCastAnew) {
  const torch::Tensor weight = torch::ones({4, 4}).requires_grad_();
  const auto forward = [&] {
    const AutocastScope autocast(torch::kCPU, Precision::kBf16);
    return at::linear(torch::ones({1, 4}), weight).sum().item<double>();
  };
  EXPECT_EQ(forward(), 16);
  {
    const torch::NoGradGuard no_gradients;
    weight.fill_(2);
  }
  EXPECT_EQ(forward(), 32);
}

TEST(Autocast, PutsTheModeBack) {
  {
    const AutocastScope outer(torch::kCPU, Precision::kBf16);
    { const AutocastScope inner(torch::kCPU, Precision::kFp32); }
    EXPECT_EQ(at::linear(torch::ones({1, 4}), torch::ones({4, 4})).scalar_type(), torch::kBFloat16);
  }
  EXPECT_EQ(at::linear(torch::ones({1, 4}), torch::ones({4, 4})).scalar_type(), torch::kFloat32);
}

TEST(LossFactor, IsAPowerOfTwoNearTheInverseWeight) {
  EXPECT_EQ(loss_factor_for(1), 1);
  EXPECT_EQ(loss_factor_for(256), 1.0 / 256);
  EXPECT_EQ(loss_factor_for(300), 1.0 / 256);
  EXPECT_EQ(loss_factor_for(0.25), 4);
  EXPECT_EQ(loss_factor_for(0), 1);
}

TEST(UpdateStep, ASkippedWindowLeavesBuffersAsTheyWere) {
  Bench bench({}, false, {}, SmallNet::Middle::kBatchNorm);
  bench.update(make_batch(8, 1), {4, 4});
  const torch::Tensor mean = bench.net->norm->running_mean.clone();
  const int64_t seen = bench.net->norm->num_batches_tracked.item<int64_t>();
  Batch bad = make_batch(8, 2);
  bad.inputs[5][0] = INFINITY;
  EXPECT_FALSE(bench.update(bad, {4, 4}).applied);
  EXPECT_TRUE(bench.net->norm->running_mean.equal(mean)) << "one bad sample would spoil every evaluation";
  EXPECT_EQ(bench.net->norm->num_batches_tracked.item<int64_t>(), seen);
  EXPECT_TRUE(bench.update(make_batch(8, 3), {8}).applied);
  EXPECT_FALSE(bench.net->norm->running_mean.equal(mean)) << "and the next window moves them again";
}

// ------------------------------------------------------------------ static buffers

enum class Rule { kSgd, kAdamW };

OptimizerRecipe recipe_of(Rule rule) {
  OptimizerRecipe recipe;
  recipe.algorithm = rule == Rule::kSgd ? Choice{"sgd", {{"momentum", 0.9}}} : Choice{"adamw", {}};
  recipe.weight_decay = 0.01;
  return recipe;
}

// A net of two heads, of which a batch uses the one that its first target names.
class TwoHeads final : public Task {
 public:
  TwoHeads() {
    torch::manual_seed(3);
    net_ = std::make_shared<SmallNet>(SmallNet::Middle::kDropout);
    other_ = net_->register_module("other", torch::nn::Linear(6, 4));
  }
  torch::nn::Module& module() override { return *net_; }
  LossTerms loss(const Batch& batch) override {
    const bool other = batch.samples % 2 == 0;
    const torch::Tensor logits =
        other ? other_->forward(batch.inputs.flatten(1).narrow(1, 0, 6)) : net_->forward(batch.inputs);
    return {logits.square().sum(), torch::full({}, static_cast<double>(batch.samples))};
  }

 private:
  std::shared_ptr<SmallNet> net_;
  torch::nn::Linear other_{nullptr};
};

using Counts = test::ReplayingRecorder::Counts;

// Returns what is left after 200 updates of changing cuts, learning rates, statistics and skipped windows.
// @param counts of a recorder; null: nothing is recorded.
std::vector<torch::Tensor> after_updates(Rule rule, bool static_buffers,
                                         const std::shared_ptr<Counts>& counts = nullptr,
                                         int64_t largest_window = 20) {
  TwoHeads task;
  const auto optimizer = make_optimizer(recipe_of(rule), {trainable_parameters(task.module())});
  GradScaler scaler({.initial_scale = 1024, .growth_interval = 7}, /*dynamic=*/true, torch::kCPU);
  WeightAverage average(trainable_parameters(task.module()), 100);
  UpdateStep step(
      task, *optimizer, scaler,
      {.clip_norm = 1.0, .seed = 5, .static_buffers = static_buffers, .preconditioned_norms = true},
      &average);
  if (counts) step.record_with(std::make_unique<test::ReplayingRecorder>(counts));
  const Batch data = make_batch(64, 2);
  Random random(9);
  std::vector<torch::Tensor> all;
  for (int64_t window = 0; window < 200; ++window) {
    step.set_statistics(window % 3 == 1, window % 6 == 1);
    average.set_update_samples(window < 150 ? 16 : 32);
    int64_t offset = 0;
    for (const int64_t samples : random_cut(1 + random.below(largest_window), random)) {
      // Copies, because products of unaligned slices may be rounded otherwise.
      const auto part = [&](const torch::Tensor& t) { return t.slice(0, offset, offset + samples).clone(); };
      step.accumulate({part(data.inputs), part(data.targets), samples}, window, offset);
      offset += samples;
    }
    if (window % 23 == 22) {
      step.abandon();
      continue;
    }
    const double lr = 0.01 / static_cast<double>(1 + window % 10);
    const auto apply = window % 17 == 16 ? UpdateStep::Apply::kForceSkip : UpdateStep::Apply::kYes;
    const UpdateOutcome outcome = step.finish(lr, apply).read();
    all.push_back(torch::tensor({outcome.loss, outcome.grad_norm, outcome.scale, outcome.weight,
                                 outcome.norms.first_squares, outcome.preconditioned_norms.square},
                                torch::kFloat64));
  }
  for (const NamedTensor& each : average.state()) all.push_back(each.tensor.clone());
  for (const NamedTensor& p : optimizer->parameters()) all.push_back(p.tensor.detach().clone());
  for (const NamedTensor& state : optimizer->state()) all.push_back(state.tensor.clone());
  return all;
}

std::string bytes_of(const torch::Tensor& tensor) {
  return {static_cast<const char*>(tensor.contiguous().data_ptr()), tensor.nbytes()};
}

class StaticBuffers : public testing::TestWithParam<Rule> {};

TEST_P(StaticBuffers, GiveTheBitsOfTheOrdinaryStep) {
  const auto ordinary = after_updates(GetParam(), false), fixed = after_updates(GetParam(), true);
  ASSERT_EQ(ordinary.size(), fixed.size());
  for (size_t i = 0; i < ordinary.size(); ++i)
    EXPECT_EQ(bytes_of(fixed[i]), bytes_of(ordinary[i])) << "tensor " << i;
}

// Replays what it has recorded, where all shapes are and where few are.
TEST_P(StaticBuffers, RecordedTheyGiveTheBitsOfTheOrdinaryStep) {
  for (const int64_t largest_window : {3, 20}) {
    const auto counts = std::make_shared<Counts>();
    const auto ordinary = after_updates(GetParam(), false, nullptr, largest_window);
    const auto recorded = after_updates(GetParam(), false, counts, largest_window);
    ASSERT_EQ(ordinary.size(), recorded.size());
    for (size_t i = 0; i < ordinary.size(); ++i)
      EXPECT_EQ(bytes_of(recorded[i]), bytes_of(ordinary[i])) << "tensor " << i;
    if (largest_window == 3) {
      EXPECT_GT(counts->replayed, 400) << "an update is three recordings and more";
    }
    EXPECT_EQ(counts->alive, 0);
  }
}

// At whatever recording it turns out: of a forward pass, a backward pass, an update.
TEST_P(StaticBuffers, WhatCannotBeRecordedIsDoneWithout) {
  const auto ordinary = after_updates(GetParam(), false);
  for (int64_t refused = 0; refused < 7; ++refused) {
    const auto counts = std::make_shared<Counts>(Counts{.refuse_from = refused});
    const auto recorded = after_updates(GetParam(), false, counts);
    ASSERT_EQ(ordinary.size(), recorded.size());
    for (size_t i = 0; i < ordinary.size(); ++i)
      EXPECT_EQ(bytes_of(recorded[i]), bytes_of(ordinary[i])) << "tensor " << i << ", refused " << refused;
    EXPECT_EQ(counts->recorded, refused);
  }
}

INSTANTIATE_TEST_SUITE_P(Rules, StaticBuffers, testing::Values(Rule::kSgd, Rule::kAdamW));

// Notes where the tensors of each call lie.
class AddressTask final : public Task {
 public:
  AddressTask() : net_(Bench::make_net(SmallNet::Middle::kNothing)) {}
  torch::nn::Module& module() override { return *net_; }
  LossTerms loss(const Batch& batch) override {
    for (const torch::Tensor& input : batch.all_inputs()) inputs.insert(input.data_ptr());
    for (const torch::Tensor& input : batch.more_inputs) seen = input.clone();
    for (const torch::Tensor& p : net_->parameters()) {
      if (p.grad().defined()) gradients.insert(p.grad().data_ptr());
    }
    return {net_->forward(batch.inputs).square().sum(), torch::ones({})};
  }
  std::set<const void*> inputs, gradients;
  torch::Tensor seen;

 private:
  std::shared_ptr<SmallNet> net_;
};

TEST(Recordings, AreForgottenWhenTheStepStopsRecording) {
  Bench bench({.clip_norm = 1.0});
  const auto counts = std::make_shared<Counts>();
  bench.step.record_with(std::make_unique<test::ReplayingRecorder>(counts));
  for (int i = 0; i < 4; ++i) bench.update(make_batch(8, 2), {8});
  EXPECT_EQ(counts->alive, 3) << "forward, backward and update";
  EXPECT_TRUE(bench.step.why_not_recorded().empty());
  bench.step.stop_recording();
  EXPECT_EQ(counts->alive, 0);
  EXPECT_FALSE(bench.step.records());
  EXPECT_TRUE(bench.update(make_batch(8, 2), {8}).applied);
  EXPECT_FALSE(bench.net->first->weight.grad().defined());
}

TEST(Recordings, OfManyShapesTheFirstAreRecorded) {
  Bench bench;
  const auto counts = std::make_shared<Counts>();
  bench.step.record_with(std::make_unique<test::ReplayingRecorder>(counts));
  for (int64_t round = 0; round < 3; ++round) {
    for (int64_t samples = 1; samples < 9; ++samples) bench.update(make_batch(samples, 2), {samples});
  }
  EXPECT_TRUE(bench.step.why_not_recorded().empty());
  EXPECT_EQ(counts->alive, 2 * 4 + 1) << "passes of four shapes, and the update";
}

TEST(Recordings, WhyThereAreNoneIsSaid) {
  Bench bench;
  bench.step.record_with(
      std::make_unique<test::ReplayingRecorder>(std::make_shared<Counts>(Counts{.refuse_from = 0})));
  for (int i = 0; i < 3; ++i) bench.update(make_batch(8, 2), {8});
  EXPECT_EQ(bench.step.why_not_recorded(),
            "a forward and backward pass cannot be recorded: it waits for the device");
}

// Has its first layer learn from the fourth update on.
class Unfreezing final : public Task {
 public:
  torch::nn::Module& module() override { return *net_; }
  void begin_update(const UpdateInfo& info) override {
    for (torch::Tensor& each : net_->first->parameters()) each.requires_grad_(info.update > 3);
  }
  LossTerms loss(const Batch& batch) override {
    return {net_->forward(batch.inputs).square().sum(), torch::ones({})};
  }

 private:
  std::shared_ptr<SmallNet> net_ = Bench::make_net(SmallNet::Middle::kNothing);
};

// The weights of a task of this kind after eight updates.
std::vector<torch::Tensor> unfrozen(const std::shared_ptr<Counts>& counts) {
  Unfreezing task;
  const auto optimizer = make_optimizer(Bench::sgd(), {trainable_parameters(task.module())});
  GradScaler scaler({}, false, torch::kCPU);
  UpdateStep step(task, *optimizer, scaler, {});
  if (counts) step.record_with(std::make_unique<test::ReplayingRecorder>(counts));
  for (int64_t update = 1; update <= 8; ++update) {
    step.set_info({.update = update});
    step.accumulate(make_batch(8, 2), update, 0);
    step.finish(0.01).read();
  }
  if (counts) {
    EXPECT_TRUE(test::holds(step.why_not_recorded(), "begin_update")) << step.why_not_recorded();
  }
  return task.module().parameters();
}

// What it decides for the first updates, a recording would decide for all.
TEST(Recordings, OfATaskThatBeginsUpdatesItselfThereAreNone) {
  const auto counts = std::make_shared<Counts>();
  EXPECT_TRUE(equal(unfrozen(counts), unfrozen(nullptr)));
  EXPECT_EQ(counts->recorded, 0);
}

// A callback may freeze a layer for some updates, or leave it out of training.
TEST(Recordings, HoldForWhatLearnsAndForWhatTrains) {
  const auto counts = std::make_shared<Counts>();
  const auto weights = [&](bool recorded) {
    Bench bench({.clip_norm = 1.0}, false, {}, SmallNet::Middle::kDropout);
    if (recorded) bench.step.record_with(std::make_unique<test::ReplayingRecorder>(counts));
    for (int i = 0; i < 24; ++i) {
      const bool frozen = i / 4 % 2 == 1, trains = i / 8 % 2 == 0;
      for (torch::Tensor& each : bench.net->first->parameters()) each.requires_grad_(!frozen);
      bench.net->dropout->train(trains);
      bench.update(make_batch(8, 2), {8});
    }
    EXPECT_TRUE(bench.step.why_not_recorded().empty());
    return bench.everything();
  };
  EXPECT_TRUE(equal(weights(true), weights(false)));
  EXPECT_EQ(counts->recorded, 2 * 4 + 2) << "passes of each combination, and an update with and without";
}

TEST(StaticBuffers, NothingMovesBetweenUpdates) {
  AddressTask task;
  const auto optimizer = make_optimizer(Bench::sgd(), {trainable_parameters(task.module())});
  GradScaler scaler({}, false, torch::kCPU);
  UpdateStep step(task, *optimizer, scaler, {.static_buffers = true});
  std::vector<torch::Tensor> in_the_way;  // so that freed memory is not simply found again
  for (int64_t window = 0; window < 20; ++window) {
    in_the_way.push_back(torch::empty({1 + window * 7}));
    Batch batch = make_batch(8, static_cast<uint64_t>(window));
    batch.more_inputs = {torch::full({8}, window)};
    step.accumulate(batch, window, 0);
    step.finish(0.1).read();
    EXPECT_TRUE(task.seen.equal(batch.more_inputs[0]));
  }
  EXPECT_EQ(task.inputs.size(), 2u);
  EXPECT_EQ(task.gradients.size(), task.module().parameters().size());
}

// What a task sees of images of 96 pixels whose updates have sizes of their own.
class SizeWatcher final : public Task {
 public:
  torch::nn::Module& module() override { return *net_; }
  LossTerms loss(const Batch& batch) override {
    seen.push_back(batch.inputs.size(3));
    return {net_->forward(batch.inputs.mean({2, 3})).square().sum(),
            torch::tensor(static_cast<double>(batch.samples))};
  }
  std::vector<int64_t> seen;

 private:
  torch::nn::Linear net_{3, 2};
};

TEST(UpdateStep, AllInputsOfAnUpdateHaveItsSizeAndTrialsTheLargest) {
  SizeWatcher task;
  const auto optimizer = make_optimizer(Bench::sgd(), {trainable_parameters(task.module())});
  GradScaler scaler({}, false, torch::kCPU);
  UpdateStep step(task, *optimizer, scaler, {.input_scale = {.share = 0.7, .seed = 5}});
  EXPECT_FALSE(step.can_record());
  const Batch batch{torch::rand({4, 3, 96, 96}), {}, 4};
  std::set<int64_t> sizes;
  for (int64_t window = 0; window < 20; ++window) {
    for (int64_t piece = 0; piece < 3; ++piece) step.accumulate(batch, window, 4 * piece);
    step.finish(0.01);
    EXPECT_EQ(std::set(task.seen.begin(), task.seen.end()).size(), 1u) << window;
    sizes.insert(task.seen.back());
    task.seen.clear();
  }
  EXPECT_EQ(sizes, (std::set<int64_t>{32, 64, 96}));
  step.take_largest_inputs(true);
  for (int64_t window = 0; window < 20; ++window) step.accumulate(batch, window, 0);
  step.abandon();
  EXPECT_EQ(std::set(task.seen.begin(), task.seen.end()), std::set<int64_t>{96});
}

// Moves the weights between two forward passes, by which it learns and is evaluated, and back.
class Moving final : public Task {
 public:
  using Act = std::function<void(torch::Tensor& weight)>;
  explicit Moving(Act act) : act_(std::move(act)) {
    torch::manual_seed(11);
    net_ = std::make_shared<SmallNet>();
  }
  torch::nn::Module& module() override { return *net_; }
  LossTerms loss(const Batch& batch) override {
    return {net_->forward(batch.inputs).to(torch::kFloat32).square().sum(),
            torch::full({}, static_cast<double>(batch.samples))};
  }
  bool makes_passes() const override { return true; }
  LossTerms passes(Passes& passes) override {
    loss(passes.batches()[0]);
    const std::vector<torch::Tensor> before = move();
    LossTerms terms = loss(passes.batches()[0]);
    passes.backward(terms.sum);
    move_back(before);
    return terms;
  }
  EvaluationTerms evaluate(const Batch& batch) override {
    loss(batch);
    const std::vector<torch::Tensor> before = move();
    EvaluationTerms terms{loss(batch)};
    move_back(before);
    return terms;
  }

  bool forgets_casts = false;

 private:
  std::vector<torch::Tensor> move() {
    const torch::NoGradGuard no_gradients;
    std::vector<torch::Tensor> before;
    for (torch::Tensor& weight : net_->parameters()) {
      before.push_back(weight.detach().clone());
      act_(weight);
    }
    if (forgets_casts) at::autocast::clear_cache();
    return before;
  }
  void move_back(const std::vector<torch::Tensor>& before) {
    const torch::NoGradGuard no_gradients;
    std::vector<torch::Tensor> weights = net_->parameters();
    for (size_t i = 0; i < before.size(); ++i) weights[i].copy_(before[i]);
  }

  Act act_;
  std::shared_ptr<SmallNet> net_;
};

TEST(UpdateStep, HalfPrecisionSeesWeightsThatATaskMovesBetweenItsPasses) {
  const Batch batch = make_batch(8, 1);
  const std::vector<Moving::Act> ways = {[](torch::Tensor& w) { w.mul_(2); },
                                         [](torch::Tensor& w) { w.data().mul_(2); },
                                         [](torch::Tensor& w) { at::_foreach_mul_({w}, 2); },
                                         [](torch::Tensor& w) { w.set_data(w.detach() * 2); }};
  for (size_t way = 0; way < ways.size(); ++way) {
    std::vector<UpdateOutcome> outcomes;
    std::vector<double> evaluated;
    for (const bool forgets : {true, false}) {
      Moving task(ways[way]);
      task.forgets_casts = forgets;
      auto optimizer = make_optimizer(Bench::sgd(), {trainable_parameters(task.module())});
      GradScaler scaler({}, false, torch::kCPU);
      UpdateStep step(task, *optimizer, scaler, {.precision = Precision::kBf16});
      step.accumulate(batch, 0, 0);
      outcomes.push_back(step.finish(0.1).read());
      if (way + 1 < ways.size())  // of which evaluations are told by operators alone
        evaluated.push_back(evaluate_batch(task, batch, Precision::kBf16).loss.sum.item<double>());
    }
    EXPECT_EQ(outcomes[0].loss, outcomes[1].loss) << way;
    EXPECT_EQ(outcomes[0].grad_norm, outcomes[1].grad_norm) << way;
    if (evaluated.empty()) continue;
    EXPECT_EQ(evaluated[0], evaluated[1]) << way;
  }
}

}  // namespace
}  // namespace autotrain
