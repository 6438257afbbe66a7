#include "checkpoint/safetensors.h"
#include "optim/weight_average.h"
#include "support/small_run.h"

namespace autotrain {
namespace {

using test::fit;
using test::SmallNet;
using test::SmallRun;
using test::TemporaryFolder;
namespace fs = std::filesystem;

TEST(WeightAverage, FollowsTheFormulaAndDoesNotMoveWhenSkipped) {
  const NamedTensor weight{"w", torch::ones({3})};
  WeightAverage average({weight}, 1000);
  average.set_update_samples(250);
  const torch::Tensor applied = torch::zeros({}), skipped = torch::ones({});
  double expected = 1;
  const double keep = std::exp2(-0.25);
  for (int update = 0; update < 10; ++update) {
    weight.tensor.fill_(update);
    average.update(average.step_for(applied));
    expected = keep * expected + (1 - keep) * update;
    EXPECT_NEAR(average.state()[0].tensor[0].item<double>(), expected, 1e-5);
    const torch::Tensor before = average.state()[0].tensor.clone();
    average.update(average.step_for(skipped));
    EXPECT_TRUE(average.state()[0].tensor.equal(before));
  }
}

// What a GPU does.
TEST(WeightAverage, TogetherItFollowsTheFormulaToRounding) {
  torch::manual_seed(1);
  for (const float step : {0.0f, 0.001f, 0.7f, 1.0f}) {
    const std::vector<torch::Tensor> weights = {torch::randn({4, 5}), torch::randn({1000}), torch::randn({})},
                                     averages = {torch::randn({4, 5}), torch::randn({1000}),
                                                 torch::randn({})};
    std::vector<torch::Tensor> wanted, seen;
    for (size_t i = 0; i < weights.size(); ++i) {
      wanted.push_back(averages[i].lerp(weights[i], step));
      seen.push_back(weights[i].clone());
    }
    lerp_together(averages, weights, torch::full({}, -step));
    for (size_t i = 0; i < weights.size(); ++i) {
      EXPECT_LE((averages[i] - wanted[i]).abs().max().item<float>(), 1e-6f) << step;
      EXPECT_TRUE(weights[i].equal(seen[i])) << "weights are only read";
      if (step == 0) {
        EXPECT_TRUE(averages[i].equal(wanted[i])) << "a skipped update moves nothing";
      }
    }
  }
}

// Four updates of 250 samples weigh as one of 1000 when the weights stand still.
TEST(WeightAverage, MeansTheSameAtAnyEffectiveBatch) {
  const NamedTensor weight{"w", torch::zeros({1})};
  WeightAverage small({weight}, 3000), large({weight}, 3000);
  weight.tensor.fill_(1);
  small.set_update_samples(250);
  large.set_update_samples(1000);
  for (int i = 0; i < 4; ++i) small.update(small.step_for(torch::zeros({})));
  large.update(large.step_for(torch::zeros({})));
  EXPECT_NEAR(small.state()[0].tensor.item<double>(), large.state()[0].tensor.item<double>(), 1e-6);
}

TEST(WeightAverage, SwapsWithoutCopyingAndBack) {
  NamedTensor weight{"w", torch::zeros({2}, torch::requires_grad())};
  WeightAverage average({weight}, 10);
  weight.tensor.detach().fill_(5);
  const void* const live = weight.tensor.data_ptr();
  {
    const AveragedWeights scope(average);
    EXPECT_EQ(weight.tensor[0].item<double>(), 0);
  }
  EXPECT_EQ(weight.tensor[0].item<double>(), 5);
  EXPECT_EQ(weight.tensor.data_ptr(), live);
}

Recipe averaging_recipe() {
  Recipe r = test::typed_recipe();
  r.average.half_life = 500;
  return r;
}

TEST(Averaging, ChangesEvaluationsAndNotWhatIsTrained) {
  const TemporaryFolder folder;
  const Summary plain = fit(test::typed_recipe(), folder / "plain");
  const Summary averaged = fit(averaging_recipe(), folder / "averaged");
  EXPECT_EQ(test::model_digest(folder / "plain", 30), test::model_digest(folder / "averaged", 30));
  EXPECT_NE(plain.final.at("loss"), averaged.final.at("loss"));
  const fs::path checkpoint = folder / "averaged" / "checkpoints" / "update-30";
  const auto model = read_safetensors(checkpoint / "model.safetensors");
  const auto averages = read_safetensors(checkpoint / "averaged.safetensors");
  ASSERT_EQ(model.size(), averages.size());
  std::map<std::string, torch::Tensor> initial;
  for (const auto& item :
       test::small_task(SmallNet::Middle::kDropout, test::kWide)->module().named_parameters())
    initial[item.key()] = item.value();
  for (size_t i = 0; i < model.size(); ++i) {
    EXPECT_EQ(model[i].name, averages[i].name);
    EXPECT_FALSE(model[i].tensor.equal(averages[i].tensor));
    EXPECT_FALSE(initial.at(model[i].name).equal(averages[i].tensor)) << "it moved";
  }
}

struct WithStatistics : torch::nn::Module {
  WithStatistics() {
    register_parameter("weight", torch::zeros({2, 2}));
    register_buffer("mean", torch::zeros({2}));
    register_buffer("count", torch::zeros({}, torch::kInt64));
    register_buffer("mask", torch::full({2}, -INFINITY));
  }
};

TEST(Averaging, TakesTheStatisticsAlongAndNeitherIntegersNorMasks) {
  const WithStatistics module;
  const std::vector<NamedTensor> parts = averaged_parts(module);
  ASSERT_EQ(parts.size(), 2);
  EXPECT_EQ(parts[1].name, "mean");
  WeightAverage average(parts, 10);
  average.set_update_samples(10);
  const torch::Tensor mean = module.named_buffers()["mean"];
  mean.fill_(8);
  average.update(average.step_for(torch::zeros({})));
  {
    const AveragedWeights scope(average);
    EXPECT_EQ(mean[0].item<double>(), 4) << "what an evaluation sees";
  }
  EXPECT_EQ(mean[0].item<double>(), 8) << "what is learned with";
}

TEST(Averaging, CanBeginAtAResume) {
  const TemporaryFolder folder;
  Recipe first = test::typed_recipe();
  first.stop.epochs = 1;
  fit(first, folder / "run");
  Recipe averaged = averaging_recipe();
  averaged.stop.updates = 11;
  averaged.stop.epochs.reset();
  averaged.average.half_life = 1 << 30;  // after one update still nearly where it began
  SmallRun run(averaged, {.output = folder / "run", .resume = true, .allow_change = true});
  EXPECT_EQ(run.trainer.fit().updates, 11);
  const fs::path checkpoints = folder / "run" / "checkpoints";
  const auto began = read_safetensors(checkpoints / "update-10" / "model.safetensors");
  const auto averages = read_safetensors(checkpoints / "update-11" / "averaged.safetensors");
  for (size_t i = 0; i < began.size(); ++i) {
    EXPECT_TRUE(averages[i].tensor.allclose(began[i].tensor, 0, 1e-6)) << began[i].name;
  }
}

// Of whose first layer every second weight is kept at zero.
struct Pruned final : Task {
  Pruned() {
    torch::manual_seed(5);
    net = std::make_shared<SmallNet>();
    prune();
  }
  torch::nn::Module& module() override { return *net; }
  LossTerms loss(const Batch& batch) override {
    return {at::cross_entropy_loss(net->forward(batch.inputs), batch.targets, {}, at::Reduction::Sum),
            torch::tensor(static_cast<double>(batch.samples))};
  }
  void after_step(const UpdateInfo&) override { prune(); }
  void prune() const {
    const torch::NoGradGuard no_gradients;
    net->first->weight.slice(1, 0, std::nullopt, 2).zero_();
  }

  std::shared_ptr<SmallNet> net;
};

TEST(Averaging, ComesAfterWhatATaskMakesOfTheWeights) {
  auto task = std::make_unique<Pruned>();
  const std::shared_ptr<SmallNet> net = task->net;
  Recipe r = averaging_recipe();
  r.stop.epochs.reset();
  r.stop.updates = 5;
  const TensorDataset data = test::small_data(1000);
  Trainer trainer(r, std::move(task), data, {.write_files = false});
  trainer.fit();
  const torch::Tensor last = net->first->weight.detach().clone();
  trainer.take(Trainer::Weights::kAverage);
  EXPECT_FALSE(net->first->weight.equal(last));
  EXPECT_TRUE(net->first->weight.slice(1, 0, std::nullopt, 2).eq(0).all().item<bool>());
}

TEST(Averaging, BeginsWithTheWeightsThatTrainingBeginsWith) {
  Recipe r = averaging_recipe();
  r.stop.epochs.reset();
  r.stop.updates = 1;
  r.average.half_life = 1 << 30;  // after one update still nearly where it began
  SmallRun run(r, {.write_files = false});
  {
    const torch::NoGradGuard no_gradients;
    for (torch::Tensor& each : run.trainer.module().parameters()) each.fill_(0.25);
  }
  run.trainer.fit();
  run.trainer.take(Trainer::Weights::kAverage);
  for (const torch::Tensor& each : run.trainer.module().parameters())
    EXPECT_TRUE(each.detach().allclose(torch::full_like(each, 0.25), 0, 1e-6));
}

TEST(Averaging, IsResumedExactlyAndLeavesNoTraceOfASearch) {
  const TemporaryFolder folder;
  fit(averaging_recipe(), folder / "straight");
  {
    SmallRun run(averaging_recipe(), {.output = folder / "run"});
    run.trainer.on_update(
        [](const UpdateRecord& u) { return u.update < 11 ? Flow::kContinue : Flow::kStop; });
    run.trainer.fit();
  }
  fit(averaging_recipe(), folder / "run", true);
  Recipe searched = averaging_recipe();
  searched.execution.micro_batch.reset();
  searched.batch.limits.max_micro_batch = 34;
  searched.execution.memory.budget = *Budget::parse("64MiB");
  fit(searched, folder / "searched");
  for (const char* name : {"run", "searched"}) {
    for (const char* file : {"model.safetensors", "averaged.safetensors", "optimizer.safetensors"}) {
      EXPECT_EQ(test::slurp(folder.path() / name / "checkpoints" / "update-30" / file),
                test::slurp(folder / "straight" / "checkpoints" / "update-30" / file))
          << name << " " << file;
    }
  }
}

}  // namespace
}  // namespace autotrain
