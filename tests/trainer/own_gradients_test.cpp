#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/modules/conv.h>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "autotrain/trainer.h"
#include "support/small_run.h"

// What a hand loop does with gradients and with requires_grad, within a task.
namespace autotrain {
namespace {

using test::SmallNet;

// A classifier whose task acts as a test says.
struct Acting : Task {
  Acting() {
    torch::manual_seed(11);
    net = std::make_shared<SmallNet>(SmallNet::Middle::kNothing);
  }
  torch::nn::Module& module() override { return *net; }
  torch::Tensor loss_of(const Batch& batch) {
    return at::cross_entropy_loss(net->forward(batch.inputs), batch.targets, {}, at::Reduction::Sum);
  }
  LossTerms loss(const Batch& batch) override {
    if (in_loss) in_loss(batch);
    return {added ? loss_of(batch) + added() : loss_of(batch),
            torch::tensor(static_cast<double>(batch.samples))};
  }
  torch::Tensor penalty() override { return on_penalty ? on_penalty() : torch::Tensor(); }
  bool makes_passes() const override { return in_passes != nullptr; }
  LossTerms passes(Passes& passes) override {
    LossTerms terms{torch::zeros({}), torch::zeros({})};
    for (const Batch& batch : passes.batches()) {
      in_passes(passes, batch);
      terms.weight += batch.samples;
    }
    return terms;
  }
  void begin_update(const UpdateInfo& info) override {
    if (in_begin) in_begin(info);
  }
  void before_step(const UpdateInfo&, Gradients& gradients) override {
    if (in_before) in_before(gradients);
  }
  void after_step(const UpdateInfo& info) override {
    if (in_after) in_after(info);
  }

  std::shared_ptr<SmallNet> net;
  std::function<void(const Batch&)> in_loss;
  std::function<void(Passes&, const Batch&)> in_passes;
  std::function<void(const UpdateInfo&)> in_begin, in_after;
  std::function<void(Gradients&)> in_before;
  std::function<torch::Tensor()> added, on_penalty;  // the first to the loss
};

Recipe acting_recipe(int64_t lanes = 1) {
  Recipe r = test::small_recipe();
  r.batch.effective = 64;
  r.execution.micro_batch = 16;
  r.execution.lanes = lanes;
  r.execution.memory.budget = *Budget::parse("64MiB");
  r.optimizer.lr = 0.01;
  r.stop = {};
  r.stop.updates = 6;
  return r;
}

// The weights that such a run ends with.
using Fill = std::function<void(Acting&)>;
torch::Tensor fit_acting(const Fill& fill, int64_t lanes = 1) {
  static const TensorDataset data = test::small_data(640);
  auto task = std::make_unique<Acting>();
  const std::shared_ptr<SmallNet> net = task->net;
  fill(*task);
  Trainer(acting_recipe(lanes), std::move(task), data, {.write_files = false}).fit();
  std::vector<torch::Tensor> all;
  for (const torch::Tensor& each : net->parameters()) all.push_back(each.detach().flatten());
  return torch::cat(all);
}

void expect_refused(const Fill& fill, std::initializer_list<const char*> words) {
  const Error error = test::expect_error(ExitCode::kBrokenContract, [&] { fit_acting(fill); });
  for (const char* const word : words) EXPECT_TRUE(test::holds(error.what(), word)) << error.what();
}

TEST(OwnGradients, ALossThatGoesBackwardOrForgetsGradientsIsRefused) {
  expect_refused(
      [](Acting& task) { task.in_loss = [&task](const Batch& batch) { task.loss_of(batch).backward(); }; },
      {"Task::loss", "first.weight", "autograd::grad"});
  expect_refused([](Acting& task) { task.in_loss = [&task](const Batch&) { task.net->zero_grad(); }; },
                 {"Task::loss", "first.weight"});
}

TEST(OwnGradients, ALossMayDifferentiateByItsInputs) {
  const auto attacked = [](Acting& task) {
    task.in_loss = [&task](const Batch& batch) {
      const torch::AutoGradMode with_gradients(true);
      Batch copy = batch;
      copy.inputs = batch.inputs.clone().requires_grad_();
      torch::autograd::grad({task.loss_of(copy)}, {copy.inputs});
    };
  };
  EXPECT_TRUE(at::equal(fit_acting(attacked), fit_acting([](Acting&) {})));
}

TEST(OwnGradients, PassesThatGoBackwardByThemselvesAreRefused) {
  const auto by_itself = [](Acting& task) {
    task.in_passes = [&task](Passes&, const Batch& batch) { task.loss_of(batch).backward(); };
  };
  expect_refused(by_itself, {"Task::passes", "first.weight", "Passes::backward"});
  // A first pass whose gradients are dropped drops those of the passes before it, too.
  const auto looks_first = [](Acting& task) {
    task.in_passes = [&task](Passes& passes, const Batch& batch) {
      task.loss_of(batch).backward();
      task.net->zero_grad();
      passes.backward(task.loss_of(batch));
    };
  };
  expect_refused(looks_first, {"Task::passes", "first.weight"});
}

TEST(OwnGradients, PassesGoBackwardFromAParameterWithAGradientOfTheirOwn) {
  for (const int64_t lanes : {1, 2}) {
    const auto plain = [](Acting& task) {
      task.in_passes = [&task](Passes& passes, const Batch& batch) { passes.backward(task.loss_of(batch)); };
    };
    const auto each = [](Acting& task) {
      task.in_passes = [&task](Passes& passes, const Batch& batch) {
        const auto parameters = task.net->parameters();
        const auto slopes = torch::autograd::grad({task.loss_of(batch)}, parameters);
        for (size_t i = 0; i < parameters.size(); ++i) passes.backward(parameters[i], slopes[i]);
      };
    };
    EXPECT_TRUE(at::allclose(fit_acting(each, lanes), fit_acting(plain, lanes), 1e-5, 1e-6));
  }
}

TEST(OwnGradients, ThoseThatNobodyAskedForAreNotChanged) {
  expect_refused(
      [](Acting& task) {
        task.in_before = [&task](Gradients&) { task.net->first->weight.mutable_grad().mul_(0.5); };
      },
      {"Task::before_step", "first.weight", "Gradients::all()"});
  expect_refused(
      [](Acting& task) {
        task.in_before = [&task](Gradients& gradients) {
          gradients.all();
          torch::Tensor& gradient = task.net->first->weight.mutable_grad();
          gradient = gradient * 0.5;
        };
      },
      {"Task::before_step", "first.weight", "another tensor"});
}

TEST(OwnGradients, OneThatIsDroppedBeforeTheStepLeavesItsParameterAlone) {
  torch::Tensor first, last;
  fit_acting([&](Acting& task) {
    last = task.net->first->weight;
    first = last.detach().clone();
    task.in_before = [&task](Gradients&) { task.net->first->weight.mutable_grad().reset(); };
  });
  EXPECT_TRUE(at::equal(first, last));
}

TEST(OwnGradients, AreForgottenWithoutHarmWhereAnUpdateBegins) {
  const auto forgets = [](Acting& task) {
    task.in_begin = [&task](const UpdateInfo&) { task.net->zero_grad(); };
  };
  for (const int64_t lanes : {1, 2})
    EXPECT_TRUE(at::equal(fit_acting(forgets, lanes), fit_acting([](Acting&) {}, lanes))) << lanes;
}

TEST(OwnGradients, ALossWhoseGraphIsAtFaultIsToldInItsOwnWords) {
  expect_refused(
      [](Acting& task) {
        auto kept = std::make_shared<torch::Tensor>(torch::zeros({}));
        task.added = [&task, kept] { return *kept = *kept + task.net->first->bias.square().sum(); };
      },
      {"Task::loss", "an earlier pass", "detach()"});
  expect_refused(
      [](Acting& task) {
        const torch::Tensor written = torch::zeros({3});
        task.added = [&task, written] {
          const torch::Tensor sum = (task.net->first->bias.slice(0, 0, 3) * written).sum();
          written.add_(1);
          return sum;
        };
      },
      {"Task::loss", "wrote to a tensor", "begin_update"});
  expect_refused([](Acting& task) { task.on_penalty = [] { return torch::ones({}); }; },
                 {"Task::penalty", "depends on no parameter", "return {}"});
}

TEST(OwnGradients, ThatComeSparseAreLearnedFromAsDenseOnes) {
  for (const int64_t lanes : {1, 2}) {
    const auto with_table = [&](bool sparse) {
      return fit_acting(
          [sparse](Acting& task) {
            const torch::Tensor table = task.net->register_parameter("table", torch::ones({7, 2}));
            const torch::Tensor rows = torch::tensor({1, 3, 3});
            task.added = [=] { return at::embedding(table, rows, -1, false, sparse).square().sum(); };
          },
          lanes);
    };
    EXPECT_TRUE(at::allclose(with_table(true), with_table(false), 1e-6, 1e-7)) << lanes;
  }
}

TEST(OwnParameters, ThatAreComplexAreRefused) {
  expect_refused(
      [](Acting& task) {
        const torch::Tensor waves =
            task.net->register_parameter("waves", torch::ones({3}, torch::kComplexFloat));
        task.added = [=] { return at::real(waves * waves.conj()).sum(); };
      },
      {"Task::module", "waves", "view_as_complex"});
}

TEST(OwnParameters, ThatLearnLaterThanTheTrainerWasMadeAreRefused) {
  expect_refused(
      [](Acting& task) {
        task.net->first->weight.requires_grad_(false);
        task.in_begin = [&task](const UpdateInfo& info) {
          task.net->first->weight.requires_grad_(info.update > 3);
        };
      },
      {"Task::module", "first.weight", "Task::begin_update"});
  expect_refused(
      [](Acting& task) {
        task.in_after = [&task](const UpdateInfo& info) {
          if (info.update == 2) task.net->register_parameter("grown", torch::zeros({3}));
        };
      },
      {"Task::module", "grown"});
}

// How many warnings of such a run hold these words.
int64_t warnings_of(const Fill& fill, const std::string& words) {
  int64_t times = 0;
  log::set_sink(
      [&](const log::Record& record) { times += record.text.find(words) != std::string::npos ? 1 : 0; },
      log::Level::kWarning);
  fit_acting(fill);
  log::set_sink(log::terminal_sink(), log::Level::kWarning);
  return times;
}

TEST(OwnParameters, ThatALossWritesToAreToldOnce) {
  const auto writes = [](bool learns) {
    return [=](Acting& task) {
      const torch::Tensor written =
          learns ? task.net->first->bias : task.net->register_parameter("frozen", torch::zeros({16}), false);
      task.in_loss = [=, done = false](const Batch&) mutable {
        const torch::NoGradGuard no_gradients;
        if (!std::exchange(done, true)) written.fill_(0.5);
      };
    };
  };
  EXPECT_EQ(warnings_of(writes(true), "writes to parameters"), 1);
  EXPECT_EQ(warnings_of(writes(false), "writes to parameters"), 0);
}

TEST(OwnParameters, ThatAreNoneOfTheModulesAreToldOnce) {
  const auto with = [](bool learns, bool fresh) {
    return [=](Acting& task) {
      torch::Tensor stranger = torch::ones({3, 5}).requires_grad_(learns);
      task.added = [=]() mutable {
        if (fresh) stranger = torch::ones({3, 5}).requires_grad_();
        return stranger.square().sum();
      };
    };
  };
  EXPECT_EQ(warnings_of(with(true, false), "[3, 5]"), 1);
  EXPECT_EQ(warnings_of(with(false, false), "[3, 5]"), 0);
  EXPECT_EQ(warnings_of(with(true, true), "[3, 5]"), 0);
}

TEST(OwnParameters, ThatAreFrozenForSomeUpdatesLearnInTheOthers) {
  for (const int64_t lanes : {1, 2}) {
    std::vector<torch::Tensor> seen;
    fit_acting(
        [&](Acting& task) {
          const torch::Tensor weight = task.net->first->weight;
          seen = {weight.detach().clone()};
          task.in_begin = [=](const UpdateInfo& info) { weight.requires_grad_(info.update > 3); };
          task.in_after = [=, &seen](const UpdateInfo&) { seen.push_back(weight.detach().clone()); };
        },
        lanes);
    ASSERT_EQ(seen.size(), 7);
    for (size_t update = 1; update < seen.size(); ++update)
      EXPECT_EQ(at::equal(seen[update - 1], seen[update]), update <= 3) << update;
  }
}

// A convolution, frozen for three updates. Which memory format it takes is tried before anything else, by
// updates that freeze it.
struct FrozenImages final : Task {
  explicit FrozenImages(bool by_itself) : own_passes(by_itself) {}
  torch::nn::Module& module() override { return *net; }
  void begin_update(const UpdateInfo& info) override { net->weight.requires_grad_(info.update > 3); }
  LossTerms loss(const Batch& batch) override {
    return {net->forward(batch.inputs).square().sum(), torch::tensor(static_cast<double>(batch.samples))};
  }
  bool makes_passes() const override { return own_passes; }
  LossTerms passes(Passes& passes) override {
    LossTerms all{torch::zeros({}), torch::zeros({})};
    for (const Batch& batch : passes.batches()) {
      const LossTerms terms = loss(batch);
      passes.backward(terms.sum);
      all.sum += terms.sum.detach();
      all.weight += terms.weight;
    }
    return all;
  }
  const bool own_passes;
  std::shared_ptr<torch::nn::Conv2dImpl> net =
      std::make_shared<torch::nn::Conv2dImpl>(torch::nn::Conv2dOptions(3, 4, 3));
};

TEST(OwnParameters, ThatAreFrozenAtFirstLearnLaterFromImagesToo) {
  const TensorDataset images(at::randn({640, 3, 6, 6}));
  for (const bool own_passes : {false, true}) {
    auto task = std::make_unique<FrozenImages>(own_passes);
    const torch::Tensor weight = task->net->weight, first = weight.detach().clone();
    Trainer trainer(acting_recipe(own_passes ? 2 : 1), std::move(task), images, {.write_files = false});
    trainer.on_update([&](const UpdateRecord& update) {
      EXPECT_EQ(at::equal(first, weight), update.update <= 3) << update.update;
      return Flow::kContinue;
    });
    EXPECT_EQ(trainer.fit().updates, 6);
  }
}

// ------------------------------------------------------------------ passes that a task makes

void go_backward_from_each(Acting& task) {
  task.in_passes = [&task](Passes& passes, const Batch& batch) { passes.backward(task.loss_of(batch)); };
}

TEST(OwnPasses, ThatGoBackwardFromNothingAreRefused) {
  struct BackwardOfNothing final : Acting {
    bool makes_passes() const override { return true; }
    LossTerms passes(Passes& passes) override {
      LossTerms terms{torch::zeros({}), torch::zeros({})};
      for (const Batch& batch : passes.batches()) {
        terms.sum = terms.sum + loss_of(batch);
        terms.weight += batch.samples;
      }
      if (detaches) terms.sum = terms.sum.detach();
      return terms;
    }
    bool detaches = false;
  };
  const TensorDataset data = test::small_data(640);
  for (const int64_t lanes : {1, 2}) {
    const Error error = test::expect_error(ExitCode::kBrokenContract, [&] {
      Trainer(acting_recipe(lanes), std::make_unique<BackwardOfNothing>(), data, {.write_files = false})
          .fit();
    });
    EXPECT_TRUE(test::holds(error.what(), "Passes::backward")) << error.what();
  }
  auto learns_nothing = std::make_unique<BackwardOfNothing>();
  learns_nothing->detaches = true;
  EXPECT_EQ(Trainer(acting_recipe(), std::move(learns_nothing), data, {.write_files = false}).fit().updates,
            6);
}

TEST(OwnPasses, WhoseGradientsAreClippedOnTheWayAreToldOf) {
  const TensorDataset data = test::small_data(640);
  for (const int64_t micro : {16, 64}) {
    for (const bool clips : {false, true}) {
      auto task = std::make_unique<Acting>();
      go_backward_from_each(*task);
      for (torch::Tensor& each : task->net->parameters()) {
        if (clips)
          each.register_hook([](const torch::Tensor& gradient) { return gradient.clamp(-0.05, 0.05); });
      }
      Recipe r = acting_recipe();
      r.execution.micro_batch = micro;
      Trainer trainer(r, std::move(task), data, {.write_files = false});
      const std::string words = trainer.plan().split_check;
      EXPECT_EQ(words.find("clips or normalises") != std::string::npos, clips) << words;
    }
  }
}

TEST(OwnPasses, NeedNoLossThatHasAGradient) {
  fit_acting([](Acting& task) {
    go_backward_from_each(task);
    task.in_loss = [](const Batch&) { throw std::runtime_error("is of evaluations alone"); };
  });
}

// ------------------------------------------------------------------ what goes wrong on the way back

struct Thrower : torch::autograd::Function<Thrower> {
  static torch::Tensor forward(torch::autograd::AutogradContext*, const torch::Tensor& x) {
    return x.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 const torch::autograd::variable_list&) {
    throw std::runtime_error("my backward failed");
  }
};

TEST(OwnGradients, WhatThrowsInABackwardPassIsOfTheMethodThatItIsOf) {
  const auto thrown = [](const torch::Tensor& x) { return Thrower::apply(x); };
  expect_refused(
      [&](Acting& task) {
        task.added = [&task, thrown] { return thrown(task.net->first->bias.square().sum()); };
      },
      {"Task::loss", "in its backward pass", "my backward failed"});
  expect_refused(
      [&](Acting& task) {
        task.on_penalty = [&task, thrown] { return thrown(task.net->first->bias.square().sum()); };
      },
      {"Task::penalty", "my backward failed"});
  expect_refused(
      [&](Acting& task) {
        task.in_passes = [&task, thrown](Passes& passes, const Batch& batch) {
          passes.backward(thrown(task.loss_of(batch)));
        };
      },
      {"Task::passes", "my backward failed"});
  const auto hooked = [](const auto& fails) {
    return [fails](Acting& task) {
      auto on = std::make_shared<bool>(false);
      task.in_begin = [on](const UpdateInfo& info) { *on = !info.trial && info.update == 3; };
      task.net->first->weight.register_hook([on, fails](const torch::Tensor&) {
        if (*on) fails();
      });
    };
  };
  expect_refused(hooked([] { throw std::runtime_error("mine"); }), {"Task::loss", "mine"});
  expect_refused(hooked([] { TORCH_CHECK(false, "mine"); }), {"Task::loss", "mine"});
}

TEST(OwnGradients, AreComputedThoughCodeOfTheProgramLeavesGradientsOff) {
  const torch::Tensor plain = fit_acting([](Acting&) {});
  const auto off = [](const auto&...) { at::GradMode::set_enabled(false); };
  const auto fit = [&](const Fill& fill) {
    EXPECT_TRUE(at::equal(fit_acting(fill), plain));
    EXPECT_TRUE(at::GradMode::is_enabled());
  };
  fit([&](Acting& task) { task.in_begin = off; });
  fit([&](Acting& task) { task.in_before = off; });
  fit([&](Acting& task) { task.in_after = off; });
  fit([&](Acting& task) {
    task.on_penalty = [off] {
      off();
      return torch::Tensor();
    };
  });
}

// ------------------------------------------------------------------ what a window leaves

struct WithLarge : Acting {
  torch::Tensor large = net->register_buffer("large", torch::zeros({1 << 19}));  // 2 MiB
  torch::Tensor queue = torch::zeros({1 << 19});
  std::vector<NamedTensor> state() override { return {{"queue", queue}}; }
};

TEST(OwnGradients, WhatAWindowFirstWritesInALaterUpdateIsPutBackWhenItIsSkipped) {
  const TensorDataset data = test::small_data(640);
  auto task = std::make_unique<WithLarge>();
  const std::shared_ptr<SmallNet> net = task->net;
  const torch::Tensor large = task->large, queue = task->queue;
  const torch::Tensor frozen = net->register_parameter("frozen", torch::ones({4}), false);
  bool late = false, skips = false;
  int windows = 0;
  task->in_begin = [&](const UpdateInfo& info) {
    late = !info.trial && info.update >= 4;
    skips = late && windows == 0;
    if (!late) return;
    ++windows;
    large.add_(1);
    const torch::NoGradGuard no_gradients;
    frozen.mul_(2);
  };
  task->in_loss = [&](const Batch&) {
    if (late) queue.add_(1);
  };
  task->added = [&] { return net->first->bias.sum() * (skips ? NAN : 0.0); };
  Recipe r = acting_recipe();
  r.execution.micro_batch = 64;
  EXPECT_EQ(Trainer(r, std::move(task), data, {.write_files = false}).fit().skipped_updates, 1);
  EXPECT_EQ(large[0].item<double>(), 3);
  EXPECT_EQ(queue[0].item<double>(), 3);
  EXPECT_EQ(frozen[0].item<double>(), 8);
}

TEST(OwnGradients, AWeightThatALossFirstWritesInASkippedUpdateEndsTheRun) {
  expect_refused(
      [](Acting& task) {
        const torch::Tensor frozen = task.net->register_parameter("frozen", torch::ones({4}), false);
        auto late = std::make_shared<bool>(false);
        task.in_begin = [late](const UpdateInfo& info) { *late = !info.trial && info.update == 4; };
        task.in_loss = [late, frozen](const Batch&) {
          const torch::NoGradGuard no_gradients;
          if (*late) frozen.mul_(2);
        };
        task.added = [&task, late] { return task.net->first->bias.sum() * (*late ? NAN : 0.0); };
      },
      {"frozen", "skipped"});
}

TEST(OwnGradients, WeightsThatAreReplacedWhereAnUpdateBeginsArePutBackAfterTrials) {
  const auto scaled = [](bool replaces) {
    return fit_acting([replaces](Acting& task) {
      task.in_begin = [&task, replaces](const UpdateInfo&) {
        const torch::NoGradGuard no_gradients;
        for (torch::Tensor& weight : task.net->parameters())
          replaces ? weight.set_data(weight.detach() * 0.9) : void(weight.mul_(0.9));
      };
    });
  };
  EXPECT_TRUE(at::equal(scaled(true), scaled(false)));
}

TEST(OwnGradients, WhatAHookWritesInATrialIsPutBack) {
  const TensorDataset data = test::small_data(640);
  auto task = std::make_unique<WithLarge>();
  const torch::Tensor large = task->large;
  task->net->first->weight.register_hook([large](const torch::Tensor&) {
    const torch::NoGradGuard no_gradients;
    large.add_(1);
  });
  Trainer trainer(acting_recipe(), std::move(task), data, {.write_files = false});
  trainer.plan();
  EXPECT_EQ(large[0].item<double>(), 0);
  trainer.fit();
  EXPECT_EQ(large[0].item<double>(), 6 * 4);
}

TEST(OwnGradients, ABufferThatPassesRegisterAndCountInIsRefusedAndAConstantIsNot) {
  const auto with_late = [](bool counts) {
    return [counts](Acting& task) {
      task.in_loss = [&task, counts](const Batch&) {
        if (!task.net->named_buffers().contains("late")) task.net->register_buffer("late", torch::zeros({4}));
        if (counts) task.net->named_buffers()["late"].add_(1);
      };
    };
  };
  expect_refused(with_late(true), {"Task::module", "late", "register it"});
  fit_acting(with_late(false));
}

TEST(OwnGradients, AMaskThatIsSetLaterIsNoDivergence) {
  fit_acting([](Acting& task) {
    const torch::Tensor mask = task.net->register_buffer("mask", torch::zeros({3}));
    task.in_after = [mask](const UpdateInfo& info) {
      if (info.update == 3) mask[2] = -INFINITY;
    };
  });
}

}  // namespace
}  // namespace autotrain
