// execution.recompute in whole runs.
#include "autotrain/checkpoint.h"
#include "autotrain/trainer.h"
#include "device/caching_allocator.h"
#include "support/small_run.h"

namespace autotrain {
namespace {

const std::string kImages =
    "{dataset: synthetic, kind: images, samples: 96, shape: [3, 16, 16], classes: 10}";

Recipe recipe_of(const std::string& execution, const std::string& model, const std::string& data = kImages,
                 int64_t effective = 24) {
  const test::TemporaryFolder folder;
  return load_recipe(folder.write("recipe.yaml", "data:\n  train: " + data + "\nmodel: " + model + R"(
optimizer: {name: adamw, lr: 0.001}
batch: {effective: )" + std::to_string(effective) + R"(}
stop: {updates: 3}
execution: {search: {plan_cache: false}, )" + execution +
                                                     "}\n"));
}

const std::string kSmallImages =
    "{dataset: synthetic, kind: images, samples: 96, shape: [3, 8, 8], classes: 10}";
const std::string kTokens = "{dataset: synthetic, kind: tokens, samples: 512, shape: [128], classes: 50}";
const std::string kLargeImages =
    "{dataset: synthetic, kind: images, samples: 96, shape: [3, 32, 32], classes: 10}";
const std::string kExported = "{name: exported, file: " AUTOTRAIN_FIXTURES "/exported_small.autotrain}";

std::string weights_after(const Recipe& recipe) {
  const test::TemporaryFolder folder;
  Trainer::from_recipe(recipe, {.output = folder / "run"}).fit();
  return test::slurp(folder / "run" / "checkpoints" / "update-3" / "model.safetensors");
}

struct Case {
  const char* name;
  std::string model;
  std::string data = kImages;
  std::vector<std::string> precisions = {"fp32", "bf16"};
};

class RecomputeOf : public testing::TestWithParam<Case> {};

// Buffers of batch normalisation and what dropout draws among them.
TEST_P(RecomputeOf, ChangesNoBitOfARun) {
  for (const std::string& precision : GetParam().precisions) {
    const std::string typed =
        "micro_batch: 8, memory: {budget: 1GiB}, precision: " + precision + ", recompute: ";
    const std::string kept = weights_after(recipe_of(typed + "off", GetParam().model, GetParam().data));
    EXPECT_TRUE(weights_after(recipe_of(typed + "on", GetParam().model, GetParam().data)) == kept)
        << precision;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, RecomputeOf,
    testing::Values(Case{"mlp", "{name: mlp, depth: 5, width: 32, dropout: 0.3}"},
                    Case{"cnn", "{name: cnn, width: 8, dropout: 0.3}"},
                    // Not in bf16, of which many processors have no quick convolution: it would take minutes.
                    Case{"resnet", "{name: resnet18, stem: small}", kSmallImages, {"fp32"}},
                    Case{"transformer", "{name: transformer, layers: 3, width: 32, heads: 2, dropout: 0.2}",
                         "{dataset: synthetic, kind: tokens, samples: 256, shape: [24], classes: 50}"},
                    Case{"lora",
                         "{name: transformer, layers: 2, width: 32, heads: 2, lora: {match: ['block*']}}",
                         "{dataset: synthetic, kind: tokens, samples: 256, shape: [24], classes: 50}"},
                    Case{"exported", kExported, kLargeImages, {"fp32"}}),
    [](const auto& each) { return std::string(each.param.name); });

TEST(Recompute, OnlyAsManyBlocksAsWereAskedFor) {
  const std::string typed = "micro_batch: 16, precision: fp32, memory: {budget: 1GiB}, recompute: ";
  const auto peak = [&](const std::string& rest) {
    return Trainer::from_recipe(
               recipe_of(typed + rest, "{name: transformer, layers: 4, width: 64, heads: 2}", kTokens),
               {.write_files = false})
        .plan()
        .peak_bytes;
  };
  const int64_t none = peak("off"), two = peak("on, recompute_blocks: 2"), all = peak("on");
  EXPECT_LT(two, none);
  EXPECT_LT(all, two);
}

TEST(Recompute, MakesRoomForALargerMicroBatch) {
  const auto found = [&](const std::string& how) {
    const Recipe recipe = recipe_of("precision: fp32, memory: {budget: 48MiB}, recompute: " + how,
                                    "{name: transformer, layers: 6, width: 64, heads: 2}", kTokens,
                                    /*effective=*/512);
    return Trainer::from_recipe(recipe, {.write_files = false}).plan();
  };
  const BatchPlan off = found("off"), on = found("on"), best = found("auto");
  EXPECT_GT(on.search.micro_batch, off.search.micro_batch);
  EXPECT_FALSE(off.recompute);
  EXPECT_TRUE(on.recompute);
  EXPECT_FALSE(best.recompute_why.empty());
  EXPECT_EQ(best.search.micro_batch, (best.recompute ? on : off).search.micro_batch);
}

TEST(Recompute, IsLeftWhereTheWholeEffectiveBatchFits) {
  const std::string model = "{name: mlp, depth: 36, width: 512}";
  const std::string vectors = "{dataset: synthetic, kind: vectors, samples: 256, shape: [512], classes: 10}";
  const Recipe roomy = recipe_of("precision: fp32, memory: {budget: 1GiB}, recompute: auto", model, vectors);
  const BatchPlan kept = Trainer::from_recipe(roomy, {.write_files = false}).plan();
  EXPECT_FALSE(kept.recompute);
  EXPECT_NE(kept.recompute_why.find("fits without"), std::string::npos) << kept.recompute_why;
}

TEST(Recompute, IsTakenWhereNotEvenOneSampleFitsWithout) {
  const auto of = [](const std::string& execution) {
    const Recipe recipe =
        recipe_of("precision: fp32, " + execution, "{name: transformer, layers: 8, width: 64, heads: 2}",
                  "{dataset: synthetic, kind: tokens, samples: 64, shape: [384], classes: 50}",
                  /*effective=*/4);
    return Trainer::from_recipe(recipe, {.write_files = false}).plan();
  };
  const auto peak = [&](const std::string& how) {
    return of("micro_batch: 1, memory: {budget: 1GiB}, recompute: " + how).peak_bytes;
  };
  const int64_t kept = peak("off"), again = peak("on");
  ASSERT_LT(again, 0.8 * static_cast<double>(kept));
  const std::string between = "memory: {budget: " + std::to_string((kept + again) / 2) + "}, recompute: ";
  test::expect_error(ExitCode::kDoesNotFit, [&] { of(between + "off"); });
  const BatchPlan plan = of(between + "auto");
  EXPECT_TRUE(plan.recompute);
  EXPECT_EQ(plan.recompute_why, "not even one sample fits without");
}

// Refuses so many allocations of forward passes, from the first update of a run on.
class RefusedForwards {
 public:
  RefusedForwards(Trainer& trainer, int refusals) : left_(refusals) {
    trainer.on_update([this](const UpdateRecord&) {
      CachingAllocator::process_wide().set_fault([this](int64_t, MemoryPhase phase) {
        return phase == MemoryPhase::kForward && left_ > 0 && left_-- > 0;
      });
      return Flow::kContinue;
    });
  }
  ~RefusedForwards() { CachingAllocator::process_wide().set_fault({}); }
  RefusedForwards(const RefusedForwards&) = delete;
  RefusedForwards& operator=(const RefusedForwards&) = delete;

 private:
  int left_;
};

// Attempts at 4, 4, 2 and 1 sample: at the last there is no smaller one.
constexpr int kRefusedAtEverySize = 4, kRefusedAlways = 1000;

Recipe four_samples(const std::string& how) {
  return recipe_of("precision: fp32, micro_batch: 4, threads: 1, memory: {budget: 64MiB}, recompute: " + how,
                   "{name: mlp, depth: 5, width: 32}",
                   "{dataset: synthetic, kind: vectors, samples: 64, shape: [8], classes: 4}",
                   /*effective=*/4);
}

TEST(RecomputeInstead, IsWhatARunGoesOnWithWhenNotEvenOneSampleFitsAnyMore) {
  const test::TemporaryFolder folder;
  const std::filesystem::path path = folder / "run";
  Trainer::from_recipe(four_samples("off"), {.output = folder / "straight"}).fit();
  {
    Trainer trainer = Trainer::from_recipe(four_samples("auto"), {.output = path});
    EXPECT_FALSE(trainer.plan().recompute);
    const RefusedForwards refused(trainer, kRefusedAtEverySize);
    const Summary summary = trainer.fit();
    EXPECT_EQ(summary.status, RunStatus::kCompleted);
    EXPECT_EQ(summary.oom_recoveries, kRefusedAtEverySize);
  }
  const auto losses = test::column(path, "loss"), expected = test::column(folder / "straight", "loss");
  ASSERT_EQ(losses.size(), expected.size());
  for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i] / expected[i], 1, 1e-4) << i;
  int64_t told = 0;
  for (const auto& row : read_metrics(path / "metrics.jsonl"))
    told += row.at("kind") == "event" && row.at("event") == "plan" &&
            row.at("detail").get<std::string>().starts_with("recompute: yes from now on");
  EXPECT_EQ(told, 1);
  EXPECT_TRUE(test::read_json(path / "plan.json").at("recompute"));

  Recipe longer = four_samples("auto");
  longer.stop.updates = 4;
  Trainer resumed = Trainer::from_recipe(longer, {.output = path, .resume = true, .allow_change = true});
  EXPECT_TRUE(resumed.plan().recompute);
  EXPECT_EQ(resumed.plan().recompute_why, "memory ran out at the smallest micro-batch without");
  EXPECT_EQ(resumed.fit().updates, 4);
}

TEST(RecomputeInstead, EndsWhereThatDoesNotHelpOrIsNotToBe) {
  for (const char* const how : {"auto", "off"}) {
    const test::TemporaryFolder folder;
    Trainer trainer = Trainer::from_recipe(four_samples(how), {.output = folder / "run"});
    const RefusedForwards refused(trainer, how == std::string("off") ? kRefusedAtEverySize : kRefusedAlways);
    const Error error = test::expect_error(ExitCode::kDoesNotFit, [&] { trainer.fit(); });
    EXPECT_TRUE(test::holds(error.what(), "with 1 sample in a micro-batch"));
  }
}

TEST(Recompute, IsRefusedByNameWhereAModelHasNoBlocks) {
  Recipe recipe = test::recipe();
  recipe.execution.recompute = Recompute::kOn;
  const Error error = test::expect_error(
      ExitCode::kBadRecipe, [&] { test::SmallRun(recipe, {.write_files = false}).trainer.plan(); });
  EXPECT_EQ(error.where(), "execution.recompute");
  EXPECT_TRUE(test::holds(error.what(), "autotrain::checkpoint"));
}

// A module of a program's own, with a block that may do what it ought not to.
struct OwnNet : torch::nn::Module {
  OwnNet() {
    first = register_module("first", torch::nn::Linear(6, 64));
    dropout = register_module("dropout", torch::nn::Dropout(0.5));
    second = register_module("second", torch::nn::Linear(64, 4));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor wide = first->forward(x);
    torch::Tensor y = checkpoint(*dropout, wide, [this](const torch::Tensor& z) {
      ++calls;
      torch::Tensor out = dropout->forward(z.tanh()).square();
      if (writes_input) torch::Tensor(z).add_(1);
      return forgets && calls % 2 == 0 ? out : out.sin();
    });
    if (writes_afterwards) wide.detach().mul_(2);
    return second->forward(y);
  }
  torch::nn::Linear first{nullptr}, second{nullptr};
  torch::nn::Dropout dropout{nullptr};
  int64_t calls = 0;
  bool writes_input = false, writes_afterwards = false, forgets = false;
};

std::vector<torch::Tensor> gradients_of(const std::shared_ptr<OwnNet>& net, bool recompute) {
  const TensorDataset train = test::small_data(1000), validation = test::small_data(200, 8);
  Recipe recipe = test::recipe();
  recipe.execution.recompute = recompute ? Recompute::kOn : Recompute::kOff;
  recipe.execution.micro_batch = 50;
  recipe.stop = {};
  recipe.stop.updates = 3;
  Trainer trainer(recipe, supervised(net, cross_entropy()), train, validation, {.write_files = false});
  trainer.fit();
  std::vector<torch::Tensor> weights;
  for (const torch::Tensor& each : net->parameters()) weights.push_back(each.detach().clone());
  return weights;
}

std::shared_ptr<OwnNet> own_net() {
  torch::manual_seed(5);
  return std::make_shared<OwnNet>();
}

TEST(Recompute, BlocksOfAProgramsOwnKeepTheirBits) {
  const auto kept_net = own_net(), again_net = own_net();
  const std::vector<torch::Tensor> kept = gradients_of(kept_net, false),
                                   again = gradients_of(again_net, true);
  ASSERT_EQ(kept.size(), again.size());
  for (size_t i = 0; i < kept.size(); ++i) EXPECT_TRUE(kept[i].equal(again[i])) << i;
  EXPECT_GT(again_net->calls, kept_net->calls);
}

TEST(Recompute, ABlockThatDoesNotComputeTheSameAgainIsNamed) {
  for (bool OwnNet::*fault : {&OwnNet::writes_input, &OwnNet::writes_afterwards, &OwnNet::forgets}) {
    const auto net = own_net();
    net.get()->*fault = true;
    const Error error = test::expect_error(ExitCode::kBrokenContract, [&] { gradients_of(net, true); });
    EXPECT_TRUE(test::holds(error.what(), "autotrain::checkpoint"));
  }
}

}  // namespace
}  // namespace autotrain
