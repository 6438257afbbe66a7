#include <torch/nn/modules/container/sequential.h>
#include <torch/optim/adam.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>
#include <torch/serialize/archive.h>

#include <cmath>

#include "autotrain/trainer.h"
#include "base/text.h"
#include "support/small_run.h"

// Optimizers of LibTorch's kind in the place of the recipe's.
namespace autotrain {
namespace {

using test::SmallNet;
using test::TemporaryFolder;

const TensorDataset& samples() {
  static const TensorDataset made = test::small_data(320);
  return made;
}

Recipe own_recipe(int64_t micro = 8) {
  Recipe r = test::small_recipe();
  r.optimizer = {};
  r.execution.micro_batch = micro;
  return r;
}

// SmallNet, which may give a loss that is not finite.
struct OwnTask final : Task {
  explicit OwnTask(SmallNet::Middle middle = SmallNet::Middle::kNothing) {
    torch::manual_seed(11);
    net = std::make_shared<SmallNet>(middle);
  }
  torch::nn::Module& module() override { return *net; }
  LossTerms loss(const Batch& batch) override {
    torch::Tensor sum =
        at::cross_entropy_loss(net->forward(batch.inputs), batch.targets, {}, at::Reduction::Sum);
    if (spoils && spoils(info)) sum = sum * NAN;
    return {sum, torch::tensor(static_cast<double>(batch.samples))};
  }
  void begin_update(const UpdateInfo& of) override {
    info = of;
    windows += of.trial ? 0 : 1;
  }

  std::shared_ptr<SmallNet> net;
  UpdateInfo info = {.trial = true};
  int windows = 0;
  std::function<bool(const UpdateInfo&)> spoils;
};

using Tensors = std::vector<torch::Tensor>;
using Own = std::unique_ptr<torch::optim::Optimizer>;

Own rms(Tensors parameters) {
  return std::make_unique<torch::optim::RMSprop>(
      std::move(parameters), torch::optim::RMSpropOptions(0.01).momentum(0.9).centered(true));
}

TorchOptimizer one(std::function<Own(Tensors)> make) {
  return {.name = "own", .make = std::move(make)};
}

Tensors copies(const torch::nn::Module& module) {
  Tensors all;
  for (const torch::Tensor& each : module.parameters()) all.push_back(each.detach().clone());
  return all;
}

bool same(const Tensors& a, const Tensors& b) {
  return std::ranges::equal(a, b,
                            [](const auto& one, const auto& other) { return torch::equal(one, other); });
}

struct Ended {
  Tensors weights;
  Summary summary;
  std::shared_ptr<SmallNet> net;
};

Ended run(Recipe r, std::vector<TorchOptimizer> optimizers, TrainerOptions options = {.write_files = false},
          int64_t stop = 0, const std::function<void(OwnTask&)>& change = {}) {
  auto task = std::make_unique<OwnTask>(SmallNet::Middle::kDropout);
  if (change) change(*task);
  Ended ended{.weights = {}, .summary = {}, .net = task->net};
  options.optimizers = std::move(optimizers);
  Trainer trainer(std::move(r), std::move(task), samples(), std::move(options));
  trainer.on_update([=](const UpdateRecord& u) { return u.update == stop ? Flow::kStop : Flow::kContinue; });
  ended.summary = trainer.fit();
  ended.weights = copies(*ended.net);
  return ended;
}

// ------------------------------------------------------------------ what is refused

// Keeps its momentum where nothing saves it.
struct Forgetful final : torch::optim::Optimizer {
  explicit Forgetful(Tensors parameters)
      : Optimizer(std::move(parameters), std::make_unique<torch::optim::SGDOptions>(0.01)) {}
  torch::Tensor step(LossClosure) override {
    const torch::NoGradGuard no_gradients;
    for (size_t i = 0; i < parameters().size(); ++i) {
      if (speeds.size() <= i) speeds.push_back(torch::zeros_like(parameters()[i]));
      if (!parameters()[i].grad().defined()) continue;
      parameters()[i].sub_(speeds[i].mul_(0.9).add_(parameters()[i].grad()), 0.01);
    }
    return {};
  }
  Tensors speeds;
};

// The same, saved.
struct Remembering final : torch::optim::Optimizer {
  explicit Remembering(Tensors parameters)
      : Optimizer(std::move(parameters), std::make_unique<torch::optim::SGDOptions>(0.01)) {
    for (const torch::Tensor& each : this->parameters()) speeds.push_back(torch::zeros_like(each));
  }
  torch::Tensor step(LossClosure) override {
    const torch::NoGradGuard no_gradients;
    ++steps;
    for (size_t i = 0; i < parameters().size(); ++i) {
      if (!parameters()[i].grad().defined()) continue;
      parameters()[i].sub_(speeds[i].mul_(0.9).add_(parameters()[i].grad()), 0.02 / std::sqrt(steps));
    }
    return {};
  }
  void save(torch::serialize::OutputArchive& archive) const override {
    archive.write("steps", torch::IValue(steps));
    for (size_t i = 0; i < speeds.size(); ++i) archive.write(cat("speed", i), speeds[i], true);
  }
  void load(torch::serialize::InputArchive& archive) override {
    torch::IValue value;
    archive.read("steps", value);
    steps = value.toDouble();
    for (size_t i = 0; i < speeds.size(); ++i) archive.read(cat("speed", i), speeds[i], true);
  }
  double steps = 0;
  Tensors speeds;
};

struct Asking final : torch::optim::Optimizer {
  explicit Asking(Tensors parameters)
      : Optimizer(std::move(parameters), std::make_unique<torch::optim::SGDOptions>(0.01)) {}
  torch::Tensor step(LossClosure closure) override { return closure(); }
};

// Lowers its rate by itself.
struct Halving final : torch::optim::SGD {
  explicit Halving(Tensors parameters) : SGD(std::move(parameters), torch::optim::SGDOptions(0.4)) {}
  torch::Tensor step(LossClosure) override {
    SGD::step();
    param_groups()[0].options().set_lr(param_groups()[0].options().get_lr() / 2);
    return {};
  }
};

// Goes half way to a slow copy of every parameter, of those without a gradient too.
struct Slow final : torch::optim::SGD {
  explicit Slow(Tensors parameters) : SGD(std::move(parameters), torch::optim::SGDOptions(0.4)) {
    for (const torch::Tensor& each : mine()) slow.push_back(each.detach().clone());
  }
  torch::Tensor step(LossClosure) override {
    SGD::step();
    const torch::NoGradGuard no_gradients;
    for (size_t i = 0; i < slow.size(); ++i) mine()[i].copy_(slow[i].lerp_(mine()[i], 0.5));
    return {};
  }
  void save(torch::serialize::OutputArchive& archive) const override {
    SGD::save(archive);
    for (size_t i = 0; i < slow.size(); ++i) archive.write(cat("slow", i), slow[i], true);
  }
  void load(torch::serialize::InputArchive& archive) override {
    SGD::load(archive);
    for (size_t i = 0; i < slow.size(); ++i) archive.read(cat("slow", i), slow[i], true);
  }
  Tensors& mine() { return param_groups()[0].params(); }
  Tensors slow;
};

template <class Type>
Own make(Tensors parameters) {
  return std::make_unique<Type>(std::move(parameters));
}

void expect_refused(ExitCode code, std::vector<TorchOptimizer> optimizers, const std::string& text,
                    Recipe r = own_recipe()) {
  const Error error = test::expect_error(code, [&] { run(r, std::move(optimizers)); });
  EXPECT_TRUE(test::holds(error.what(), text));
}

TEST(OwnOptimizers, WhatCannotBeRightIsRefusedByName) {
  expect_refused(ExitCode::kBrokenContract, {one(make<torch::optim::LBFGS>)}, "L-BFGS");
  expect_refused(ExitCode::kBrokenContract, {one(make<Forgetful>)}, "save and load do not carry");
  expect_refused(ExitCode::kBrokenContract, {one(make<Asking>)}, "asks for the loss again");
  expect_refused(ExitCode::kBrokenContract, {one(make<Halving>)}, "learning rate changed from 0.4 to 0.2");
  expect_refused(ExitCode::kBrokenContract, {one([](Tensors all) {
                   all.pop_back();
                   return rms(std::move(all));
                 })},
                 "other tensors");
  expect_refused(ExitCode::kBrokenContract, {one([](Tensors) { return Own(); })}, "was not made");
  expect_refused(ExitCode::kUsage, {{.name = "own", .match = {"first.*"}, .make = rms}},
                 "none updates second.weight");
  expect_refused(ExitCode::kUsage,
                 {{.name = "a", .make = rms}, {.name = "b", .match = {"first.*"}, .make = rms}},
                 "first.weight belongs to both a and b");
  expect_refused(ExitCode::kUsage, {one(rms), one(rms)}, "two have the name");
  expect_refused(ExitCode::kUsage, {{.name = "a/b", .make = rms}}, "letters");
  expect_refused(ExitCode::kBadRecipe, {{.name = "own", .match = {"frist.*"}, .make = rms}}, "first");
  Recipe r = own_recipe();
  r.optimizer.lr = 0.5;
  expect_refused(ExitCode::kBadRecipe, {one(rms)}, "optimizer.lr", r);
}

// As one of LibTorch's schedulers does, stepped in a callback.
TEST(OwnOptimizers, WhoseRateTheProgramChangesAreRefused) {
  torch::optim::Optimizer* made = nullptr;
  Trainer trainer(own_recipe(), std::make_unique<OwnTask>(), samples(),
                  {.write_files = false, .optimizers = {one([&](Tensors all) {
                                           auto own =
                                               std::make_unique<torch::optim::SGD>(std::move(all), 0.4);
                                           made = own.get();
                                           return own;
                                         })}});
  trainer.on_update([&](const UpdateRecord&) {
    made->param_groups()[0].options().set_lr(0.1);
    return Flow::kContinue;
  });
  const Error error = test::expect_error(ExitCode::kBrokenContract, [&] { trainer.fit(); });
  EXPECT_TRUE(test::holds(error.what(), "from 0.4 to 0.1")) << error.what();
}

// ------------------------------------------------------------------ what must hold

TEST(OwnOptimizers, LeaveTheProgramsGeneratorAlone) {
  for (const uint64_t seed : {1, 2}) {  // the first is what rehearsals draw with
    torch::manual_seed(seed);
    torch::rand({3});
    const torch::Tensor state = at::globalContext().defaultGenerator(torch::kCPU).get_state();
    Trainer trainer(own_recipe(), std::make_unique<OwnTask>(), samples(),
                    {.write_files = false, .optimizers = {one(rms)}});
    at::Generator global = at::globalContext().defaultGenerator(torch::kCPU);
    global.set_state(state);  // the task has drawn its weights since
    trainer.plan();
    EXPECT_TRUE(torch::equal(global.get_state(), state)) << seed;
  }
}

TEST(OwnOptimizers, MayGoOverParametersWithoutAGradient) {
  struct Freezing final : Task {
    torch::nn::Module& module() override { return inner->module(); }
    LossTerms loss(const Batch& batch) override { return inner->loss(batch); }
    void begin_update(const UpdateInfo& info) override {
      for (torch::Tensor& each : inner->net->first->parameters()) each.requires_grad_(info.update > 3);
    }
    std::unique_ptr<OwnTask> inner = std::make_unique<OwnTask>();
  };
  Trainer trainer(own_recipe(), std::make_unique<Freezing>(), samples(),
                  {.write_files = false, .optimizers = {one(make<Slow>)}});
  EXPECT_EQ(trainer.fit().updates, 10);
}

TEST(OwnOptimizers, ResumeWithTheSameBitsAndStateOfEveryForm) {
  const TemporaryFolder folder;
  const auto adam = [](Tensors all) -> Own {
    return std::make_unique<torch::optim::Adam>(std::move(all),
                                                torch::optim::AdamOptions(0.01).amsgrad(true));
  };
  const auto momentum = [](Tensors all) -> Own {
    return std::make_unique<torch::optim::SGD>(std::move(all), torch::optim::SGDOptions(0.02).momentum(0.9));
  };
  // Two groups, in another order than the module's.
  const auto groups = [](Tensors all) -> Own {
    std::vector<torch::optim::OptimizerParamGroup> parts;
    parts.emplace_back(Tensors{all[3], all[2]});
    parts.emplace_back(Tensors{all[1], all[0]}, std::make_unique<torch::optim::AdamOptions>(0.05));
    return std::make_unique<torch::optim::Adam>(parts, torch::optim::AdamOptions(0.01));
  };
  const std::vector<std::pair<std::string, std::function<Own(Tensors)>>> kinds = {
      {"rms", rms}, {"adam", adam}, {"momentum", momentum}, {"groups", groups}, {"own", make<Remembering>}};
  for (const auto& [name, make] : kinds) {
    const Tensors straight =
        run(own_recipe(), {one(make)}, {.output = folder / (name + "-straight")}).weights;
    run(own_recipe(), {one(make)}, {.output = folder / name}, /*stop=*/4);
    EXPECT_TRUE(
        same(run(own_recipe(), {one(make)}, {.output = folder / name, .resume = true}).weights, straight))
        << name;
  }
}

// Turns of their own; one has not begun when the run is stopped.
TEST(OwnOptimizers, ThatHaveNotHadATurnResumeToo) {
  const TemporaryFolder folder;
  const auto parts = [] {
    return std::vector<TorchOptimizer>{
        {.name = "first", .match = {"first.*"}, .make = rms},
        {.name = "second", .match = {"second.*"}, .make = rms, .turn = [](const UpdateInfo& info) {
           return info.update > 6;
         }}};
  };
  const Tensors straight = run(own_recipe(), parts(), {.output = folder / "straight"}).weights;
  const Ended stopped = run(own_recipe(), parts(), {.output = folder / "stopped"}, /*stop=*/4);
  EXPECT_TRUE(torch::equal(stopped.weights[2], copies(*OwnTask(SmallNet::Middle::kDropout).net)[2]));
  EXPECT_TRUE(
      same(run(own_recipe(), parts(), {.output = folder / "stopped", .resume = true}).weights, straight));
}

// The same layers, registered in either order; the first one learns from update 4 on.
struct Ordered final : Task {
  explicit Ordered(bool turned) {
    torch::manual_seed(7);
    torch::nn::Linear one(6, 16), two(16, 4);
    for (const bool first : {!turned, turned}) {
      if (first) a = net.register_module("a", one);
      if (!first) b = net.register_module("b", two);
    }
  }
  torch::nn::Module& module() override { return net; }
  LossTerms loss(const Batch& batch) override {
    return {at::cross_entropy_loss(b(a(batch.inputs).tanh()), batch.targets, {}, at::Reduction::Sum),
            torch::tensor(static_cast<double>(batch.samples))};
  }
  void begin_update(const UpdateInfo& info) override {
    for (torch::Tensor& each : a->parameters()) each.requires_grad_(info.trial || info.update > 3);
  }

  torch::nn::Module net;
  torch::nn::Linear a{nullptr}, b{nullptr};
};

TEST(OwnOptimizers, ResumeAfterParametersWereRegisteredInAnotherOrder) {
  const TemporaryFolder folder;
  const auto torch_adam = [](Tensors all) -> Own {
    return std::make_unique<torch::optim::Adam>(std::move(all), torch::optim::AdamOptions(0.01));
  };
  for (const bool own : {false, true}) {
    const auto weights = [&](const std::string& name, bool turned, bool resume = false, int64_t stop = 0) {
      Recipe r = own ? own_recipe() : test::small_recipe();
      if (!own) r.optimizer.algorithm = {"adam", {}};
      r.optimizer.clip_norm.reset();  // a norm rounds by the order of what it is of
      r.execution.micro_batch = 8;
      TrainerOptions options{.output = folder / cat(name, own), .resume = resume};
      if (own) options.optimizers = {one(torch_adam)};
      auto task = std::make_unique<Ordered>(turned);
      const torch::nn::Linear a = task->a, b = task->b;
      Trainer trainer(r, std::move(task), samples(), options);
      trainer.on_update(
          [=](const UpdateRecord& u) { return u.update == stop ? Flow::kStop : Flow::kContinue; });
      trainer.fit();
      Tensors all = copies(*a);
      for (const torch::Tensor& each : copies(*b)) all.push_back(each);
      return all;
    };
    const Tensors straight = weights("straight", false);
    EXPECT_TRUE(same(weights("turned", true), straight));
    for (const int64_t stop : {2, 5}) {
      const std::string name = cat("stopped-", stop, '-');
      weights(name, false, false, stop);
      EXPECT_TRUE(same(weights(name, true, true), straight)) << name << own;
    }
  }
}

TEST(OwnOptimizers, TrialsLeaveNoTraceAndASearchedSizeIsATypedOne) {
  Recipe r = own_recipe();
  r.execution.micro_batch.reset();
  r.batch.limits.max_micro_batch = 16;
  auto task = std::make_unique<OwnTask>(SmallNet::Middle::kDropout);
  const std::shared_ptr<SmallNet> net = task->net;
  const Tensors before = copies(*net);
  Trainer trainer(r, std::move(task), samples(), {.write_files = false, .optimizers = {one(rms)}});
  const int64_t found = trainer.plan().micro_batch;
  EXPECT_TRUE(same(copies(*net), before));
  trainer.fit();
  EXPECT_TRUE(same(run(own_recipe(found), {one(rms)}).weights, copies(*net)));
}

TEST(OwnOptimizers, DoNotStepWhereAnUpdateIsSkipped) {
  const Tensors plain = run(own_recipe(), {one(rms)}).weights;
  int spoiled = 0;
  const Ended skipped = run(own_recipe(), {one(rms)}, {.write_files = false}, 0, [&](OwnTask& task) {
    task.spoils = [&](const UpdateInfo& info) {
      return !info.trial && info.update == 3 && task.windows == 3 && ++spoiled > 0;
    };
  });
  EXPECT_GT(spoiled, 0);
  EXPECT_EQ(skipped.summary.skipped_updates, 1);
  EXPECT_EQ(skipped.summary.updates, 10);
  EXPECT_FALSE(same(skipped.weights, plain)) << "its samples are passed over";
  EXPECT_TRUE(at::isfinite(skipped.weights[0]).all().item<bool>());
}

// The recipe's schedule is a factor of the rate that the optimizer was made with.
TEST(OwnOptimizers, FollowTheScheduleWithTheirOwnRate) {
  std::vector<double> rates;
  struct Watched final : torch::optim::SGD {
    Watched(Tensors all, std::vector<double>& seen)
        : SGD(std::move(all), torch::optim::SGDOptions(0.5)), rates(seen) {}
    torch::Tensor step(LossClosure) override {
      rates.push_back(param_groups()[0].options().get_lr());
      return SGD::step();
    }
    std::vector<double>& rates;
  };
  Recipe r = own_recipe();
  r.schedule.shape = {"linear", {}};
  std::vector<double> recorded;
  auto task = std::make_unique<OwnTask>();
  Trainer trainer(r, std::move(task), samples(),
                  {.write_files = false, .optimizers = {one([&](Tensors all) -> Own {
                                           return std::make_unique<Watched>(std::move(all), rates);
                                         })}});
  trainer.plan();
  rates.clear();
  trainer.on_update([&](const UpdateRecord& u) { return recorded.push_back(u.lr), Flow::kContinue; });
  trainer.fit();
  ASSERT_EQ(rates.size(), 10);
  ASSERT_EQ(recorded.size(), 10);
  for (size_t i = 0; i < rates.size(); ++i) EXPECT_DOUBLE_EQ(rates[i], 0.5 * recorded[i]);
  EXPECT_GT(rates.front(), 2 * rates.back());
}

// Gradients of those whose turn it is not are no part of the norm that is clipped.
TEST(OwnOptimizers, WhoHasNoTurnIsNoPartOfTheNorm) {
  const auto norms = [](const std::vector<TorchOptimizer>& optimizers, int64_t lanes, bool frozen) {
    Recipe r = own_recipe();
    r.execution.lanes = lanes;
    r.stop.updates = 1;
    auto task = std::make_unique<OwnTask>();
    for (torch::Tensor each : task->net->second->parameters()) {
      if (frozen) each.requires_grad_(false);
    }
    double norm = 0;
    Trainer trainer(r, std::move(task), samples(), {.write_files = false, .optimizers = optimizers});
    trainer.on_update([&](const UpdateRecord& u) { return norm = u.grad_norm, Flow::kContinue; });
    trainer.fit();
    return norm;
  };
  const TorchOptimizer first{.name = "first", .match = {"first.*"}, .make = rms},
      second{.name = "second", .match = {"second.*"}, .make = rms, .turn = [](const UpdateInfo&) {
               return false;
             }};
  for (const int64_t lanes : {1, 2})
    EXPECT_NEAR(norms({first, second}, lanes, false), norms({first}, lanes, true), 1e-6);
}

}  // namespace
}  // namespace autotrain
