#include <torch/csrc/autograd/autograd.h>
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
                 {"Task::penalty", "depends on no parameter"});
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

}  // namespace
}  // namespace autotrain
