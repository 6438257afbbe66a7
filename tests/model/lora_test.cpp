// Low-rank adapters on models of ours and on an exported one.
#include <gtest/gtest.h>

#include <map>

#include "checkpoint/safetensors.h"
#include "device/device.h"
#include "model/initial_weights.h"
#include "model/models.h"
#include "optim/optimizer.h"
#include "step/autocast.h"
#include "support/small_run.h"

namespace autotrain {
namespace {

namespace fs = std::filesystem;

struct Adaptable {
  Choice choice;
  SampleShape shape;
  LoraRecipe lora;
};

const SampleShape kImages{{3, 32, 32}, 10, 0}, kTokens{{12}, 17, 17};
const Choice kExported{"exported", {{"file", std::string(AUTOTRAIN_FIXTURES "/exported_small.autotrain")}}};
const Choice kTransformer{"transformer", {{"width", int64_t{16}}, {"layers", int64_t{2}}, {"tied", false}}};

std::vector<Adaptable> adaptable_models() {
  return {{{"mlp", {{"width", int64_t{24}}}}, kImages, {.match = {"*"}, .rank = 3, .alpha = 5}},
          {{"cnn", {}}, kImages, {.match = {"hidden"}, .train = {"output"}}},
          {kTransformer, kTokens, {.match = {"block*", "head"}, .rank = 2}},
          {kExported, kImages, {.match = {"5"}, .rank = 4, .train = {"1"}}}};
}

std::shared_ptr<Network> fresh_model(const Adaptable& c) {
  torch::manual_seed(1);
  return make_model(c.choice, c.shape);
}

// Adapted, with changes that are not zero.
std::shared_ptr<Network> adapted(const Adaptable& c) {
  auto model = fresh_model(c);
  model->adapt(c.lora);
  const torch::NoGradGuard no_gradients;
  for (const auto& [name, adapter] : model->adapters()) torch::Tensor(adapter->b).normal_(0, 0.1);
  return model;
}

torch::Tensor inputs_to(const Adaptable& c, int64_t n, uint64_t seed) {
  torch::manual_seed(seed);
  std::vector<int64_t> shape = {n};
  shape.insert(shape.end(), c.shape.input.begin(), c.shape.input.end());
  return c.shape.vocabulary > 0 ? torch::randint(c.shape.vocabulary, shape) : torch::randn(shape);
}

std::map<std::string, torch::Tensor> state_of(const torch::nn::Module& module) {
  std::map<std::string, torch::Tensor> tensors;
  for (const auto& item : module.named_parameters()) tensors[item.key()] = item.value();
  for (const auto& item : module.named_buffers()) tensors[item.key()] = item.value();
  return tensors;
}

// The model with the weights that the adapted one computes with, all of which learn.
std::shared_ptr<Network> dense_twin(const Adaptable& c, const Network& model) {
  auto twin = fresh_model(c);
  const torch::NoGradGuard no_gradients;
  const auto own = state_of(*twin);
  for (const auto& [name, tensor] : state_of(model)) {
    if (own.contains(name)) own.at(name).detach().copy_(tensor);
  }
  for (const auto& [name, adapter] : model.adapters()) own.at(name).detach().copy_(adapter->effective());
  return twin;
}

double relative_distance(const torch::Tensor& a, const torch::Tensor& b) {
  return (a - b).norm().item<double>() / b.norm().item<double>();
}

TEST(Lora, TheFirstPassIsTheModelsOwnToTheBit) {
  for (const Adaptable& c : adaptable_models()) {
    const auto plain = fresh_model(c), model = fresh_model(c);
    model->adapt(c.lora);
    const torch::Tensor inputs = inputs_to(c, 4, 2);
    EXPECT_TRUE(model->forward(inputs).equal(plain->forward(inputs))) << c.choice.name;
    for (const auto& [name, adapter] : model->adapters()) {
      const double bound = 1 / std::sqrt(static_cast<double>(adapter->a.size(1)));
      EXPECT_EQ(adapter->b.count_nonzero().item<int64_t>(), 0) << name;
      EXPECT_LE(adapter->a.abs().max().item<double>(), bound) << name;
      EXPECT_GT(adapter->a.abs().max().item<double>(), bound / 2) << name;
      EXPECT_EQ(adapter->a.size(0), c.lora.rank_used()) << name;
      EXPECT_EQ(adapter->scale, c.lora.alpha_used() / static_cast<double>(c.lora.rank_used()));
    }
  }
}

// dB = s · dW · Aᵀ and dA = s · Bᵀ · dW, where dW is the gradient of a model without adapters that has the
// same weights, over two accumulated micro-batches.
TEST(Lora, GradientsAreThoseOfTheWholeWeightOnceMore) {
  for (const Adaptable& c : adaptable_models()) {
    const auto model = adapted(c);
    const auto twin = dense_twin(c, *model);
    for (const uint64_t seed : {3, 4}) {
      const torch::Tensor inputs = inputs_to(c, 8, seed);
      model->forward(inputs).square().sum().backward();
      twin->forward(inputs).square().sum().backward();
    }
    const auto whole = state_of(*twin);
    ASSERT_FALSE(model->adapters().empty());
    for (const auto& [name, adapter] : model->adapters()) {
      const torch::Tensor gradient = whole.at(name).grad();
      EXPECT_LT(relative_distance(adapter->b.grad(), adapter->scale * gradient.mm(adapter->a.t())), 1e-5)
          << name;
      EXPECT_LT(relative_distance(adapter->a.grad(), adapter->scale * adapter->b.t().mm(gradient)), 1e-5)
          << name;
      EXPECT_FALSE(adapter->weight.grad().defined()) << name;
    }
  }
}

TEST(Lora, OnlyAdaptersAndWhatIsToBeTrainedLearn) {
  for (const Adaptable& c : adaptable_models()) {
    const auto model = adapted(c);
    model->forward(inputs_to(c, 4, 5)).square().sum().backward();
    size_t adapters = 0;
    for (const NamedTensor& parameter : trainable_parameters(*model)) {
      const bool whole = !c.lora.train.empty() && parameter.name.starts_with(c.lora.train[0] + ".");
      EXPECT_TRUE(whole || is_adapter_tensor(parameter.name)) << parameter.name;
      EXPECT_TRUE(parameter.tensor.grad().defined()) << parameter.name;
      adapters += is_adapter_tensor(parameter.name);
    }
    EXPECT_EQ(adapters, 2 * model->adapters().size());
  }
}

TEST(Lora, MergedWeightsPredictWhatAdaptedOnesDid) {
  for (const Adaptable& c : adaptable_models()) {
    const auto model = adapted(c);
    model->eval();
    const torch::Tensor inputs = inputs_to(c, 4, 6), before = model->forward(inputs);
    std::vector<NamedTensor> all;
    for (const auto& [name, tensor] : state_of(*model)) all.push_back({name, tensor.clone()});
    model->merge_adapters();
    EXPECT_TRUE(model->forward(inputs).equal(before)) << c.choice.name;
    const auto left = state_of(*model);
    EXPECT_EQ(left.size(), state_of(*fresh_model(c)).size()) << "no adapter is left";
    const std::vector<NamedTensor> of_a_file = merged(all, c.lora.scale());
    EXPECT_EQ(of_a_file.size(), left.size());
    for (const NamedTensor& item : of_a_file) EXPECT_TRUE(item.tensor.equal(left.at(item.name))) << item.name;
  }
}

TEST(Lora, InHalfPrecisionALayerComputesAsTheMergedOneWill) {
  const Adaptable c = adaptable_models()[2];
  const auto model = adapted(c);
  const torch::Tensor inputs = inputs_to(c, 4, 7);
  torch::Tensor prediction;
  {
    const AutocastScope autocast(torch::kCPU, Precision::kBf16);
    prediction = model->forward(inputs);
  }
  prediction.square().sum().backward();
  for (const auto& [name, adapter] : model->adapters()) {
    EXPECT_EQ(adapter->a.grad().scalar_type(), torch::kFloat32);
    EXPECT_TRUE(adapter->a.grad().isfinite().all().item<bool>());
  }
  model->merge_adapters();
  const AutocastScope autocast(torch::kCPU, Precision::kBf16);
  EXPECT_TRUE(model->forward(inputs).equal(prediction));
}

TEST(Lora, HalvesOfAdaptersAreRefused) {
  const NamedTensor weight{"fc.weight", torch::ones({2, 3})}, a{"fc.lora_A.weight", torch::ones({1, 3})},
      b{"fc.lora_B.weight", torch::ones({2, 1})};
  EXPECT_TRUE(merged({a, b, weight}, 2)[0].tensor.eq(3).all().item<bool>());
  test::expect_error(ExitCode::kBadData, [&] { merged({weight, a}, 1); });
  test::expect_error(ExitCode::kBadData, [&] { merged({a, b}, 1); });
}

std::string refusal(const Choice& choice, const SampleShape& shape, const LoraRecipe& lora) {
  return test::expect_error(ExitCode::kBadRecipe, [&] { make_model(choice, shape)->adapt(lora); }).what();
}

TEST(Lora, PatternsThatMatchNothingToAdaptAreRefusedByName) {
  const Choice resnet{"resnet18", {{"stem", std::string("small")}}};
  EXPECT_TRUE(
      test::holds(refusal(kTransformer, kTokens, {.match = {"block0.qvk"}}), "did you mean \"block0.qkv\"?"));
  EXPECT_TRUE(test::holds(refusal(kTransformer, kTokens, {.match = {"block0"}, .train = {"haed"}}),
                          "did you mean \"head\"?"));
  EXPECT_TRUE(test::holds(refusal(resnet, kImages, {.match = {"fc", "conv1"}}),
                          "conv1.weight [64, 3, 3, 3] is no matrix"));
  EXPECT_TRUE(test::holds(refusal(kTransformer, kTokens, {.match = {"token"}}),
                          "token.weight [17, 16] is not of a linear layer"));
  EXPECT_TRUE(test::holds(refusal(kTransformer, kTokens, {.match = {"head"}, .train = {"head"}}),
                          "matches nothing but what"));
  EXPECT_TRUE(test::holds(refusal(kExported, kImages, {.match = {"5"}}), "freezes \"1.*\""));
  EXPECT_TRUE(test::holds(refusal(kExported, kImages, {.match = {"0.weight"}}), "is no matrix"));
}

// ------------------------------------------------------------------ runs

Recipe lora_recipe() {
  Recipe r = test::small_recipe();
  r.data.train = {"synthetic", {{"kind", std::string("vectors")}, {"samples", int64_t{600}}}};
  r.data.validation = r.data.train;
  r.model = {"mlp", {{"width", int64_t{32}}, {"dropout", 0.2}}};
  r.lora = {.match = {"hidden*"}, .rank = 4, .train = {"output"}};
  r.optimizer.weight_decay = 0.1;
  r.average.half_life = 200;
  r.execution.micro_batch = 11;
  r.execution.device = "cpu";
  r.stop.updates = 8;
  r.checkpoint.every = *Interval::parse("4 updates");
  r.checkpoint.keep = 100;
  return r;
}

Summary fit_adapters(const Recipe& recipe, const fs::path& folder, int64_t until = 8) {
  Trainer trainer = Trainer::from_recipe(recipe, {.output = folder, .resume = fs::exists(folder)});
  trainer.on_update([&](const UpdateRecord& u) { return u.update < until ? Flow::kContinue : Flow::kStop; });
  return trainer.fit();
}

fs::path checkpoint_of(const fs::path& run, int64_t update) {
  return run / "checkpoints" / ("update-" + std::to_string(update));
}

Recipe exported_recipe() {
  Recipe r = lora_recipe();
  r.data.train = {"synthetic",
                  {{"kind", std::string("images")},
                   {"samples", int64_t{200}},
                   {"shape", std::vector<int64_t>{3, 32, 32}}}};
  r.data.validation = r.data.train;
  r.model = kExported;
  r.lora = {.match = {"5"}, .rank = 2, .train = {"1"}};
  return r;
}

TEST(LoraRun, TheModelsOwnWeightsKeepEveryByteAndAdaptersLearn) {
  for (Recipe r : {lora_recipe(), exported_recipe()}) {
    for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
      if (r.model == kExported && precision == Precision::kBf16) continue;  // it has no such graphs
      r.execution.precision = precision;
      const test::TemporaryFolder folder;
      fit_adapters(r, folder / "run");
      const auto device = open_run_device(r);
      const auto fresh = build_task(r, load_data(r, *device).train->info());
      const auto first = state_of(fresh->module());
      const auto tensors = read_safetensors(checkpoint_of(folder / "run", 8) / "model.safetensors");
      EXPECT_EQ(tensors.size(), first.size());
      for (const NamedTensor& item : tensors) {
        const bool kept = first.at(item.name).is_floating_point() && !first.at(item.name).requires_grad();
        const bool statistics = item.name.find("running") != std::string::npos;
        EXPECT_EQ(item.tensor.equal(first.at(item.name)), kept && !statistics) << item.name;
      }
    }
  }
}

TEST(LoraRun, IsResumedExactlyAndLeavesNoTraceOfASearch) {
  for (const Recipe& typed : {lora_recipe(), exported_recipe()}) {
    const test::TemporaryFolder folder;
    fit_adapters(typed, folder / "straight");
    fit_adapters(typed, folder / "run", 5);
    EXPECT_EQ(fit_adapters(typed, folder / "run").updates, 8);
    Recipe searched = typed;
    searched.execution.micro_batch.reset();
    searched.batch.limits.max_micro_batch = 11;  // which is what an even cut comes to
    fit_adapters(searched, folder / "searched");
    for (const char* name : {"run", "searched"}) {
      for (const char* file : {"model.safetensors", "averaged.safetensors", "optimizer.safetensors"}) {
        EXPECT_TRUE(test::slurp(checkpoint_of(folder / name, 8) / file) ==
                    test::slurp(checkpoint_of(folder / "straight", 8) / file))
            << name << " " << file;
      }
    }
  }
}

struct MemoryTaken {
  int64_t state = 0;  // of the optimizer
  int64_t peak = 0;   // while an update is computed
};

MemoryTaken memory_for(const Recipe& recipe) {
  const auto bench = assemble(recipe, load_materials(recipe));
  const Batch batch{torch::randn({4, 64}), torch::randint(10, {4}), 4};
  bench->task->module().train();
  bench->device->memory().reset_peak();
  bench->step.accumulate(batch, 0, 0);
  bench->step.finish(0.001).read();
  return {bench->optimizer->state_bytes(), bench->device->memory().peak().allocated_bytes};
}

TEST(LoraRun, TakesLessMemoryThanTrainingTheWholeModel) {
  Recipe whole = lora_recipe();
  whole.average = {};
  whole.data.train = {
      "synthetic",
      {{"kind", std::string("vectors")}, {"samples", int64_t{40}}, {"shape", std::vector<int64_t>{64}}}};
  whole.data.validation.reset();
  whole.model = {"mlp", {{"width", int64_t{512}}, {"depth", int64_t{4}}}};
  whole.lora = {};
  Recipe lora = whole;
  lora.lora = {.match = {"*"}, .rank = 4};
  const MemoryTaken all = memory_for(whole), adapters = memory_for(lora);
  EXPECT_LT(20 * adapters.state, all.state);
  EXPECT_LT(adapters.peak, all.peak * 3 / 4);
}

TEST(LoraRun, BaseWeightsComeFromAFileAndAdaptersToo) {
  const test::TemporaryFolder folder;
  Recipe base = lora_recipe();
  base.lora = {};
  fit_adapters(base, folder / "base");
  Recipe tuned = lora_recipe();
  tuned.weights.file = (checkpoint_of(folder / "base", 8) / "model.safetensors").string();
  fit_adapters(tuned, folder / "tuned");
  const auto tensors = [&](const fs::path& run) {
    std::map<std::string, torch::Tensor> all;
    for (const NamedTensor& item : read_safetensors(checkpoint_of(run, 8) / "model.safetensors"))
      all[item.name] = item.tensor;
    return all;
  };
  const auto before = tensors(folder / "base"), after = tensors(folder / "tuned");
  EXPECT_TRUE(after.at("hidden0.weight").equal(before.at("hidden0.weight")));
  EXPECT_FALSE(after.at("output.weight").equal(before.at("output.weight")));

  Recipe more = tuned;
  more.weights.file = (checkpoint_of(folder / "tuned", 8) / "model.safetensors").string();
  more.optimizer.lr = 1e-30;
  fit_adapters(more, folder / "more");
  EXPECT_TRUE(tensors(folder / "more").at("hidden1.lora_A.weight").equal(after.at("hidden1.lora_A.weight")));
  more.lora = {};
  const Error error =
      test::expect_error(ExitCode::kBadData, [&] { fit_adapters(more, folder / "unadapted"); });
  EXPECT_TRUE(test::holds(error.hint(), "it holds adapters"));
}

}  // namespace
}  // namespace autotrain
