#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <fenv.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <atomic>
#include <clocale>
#include <csignal>
#include <cstdlib>
#include <set>
#include <system_error>
#include <thread>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "autotrain/random.h"
#include "autotrain/sweep.h"
#include "autotrain/trainer.h"
#include "base/text.h"
#include "support/small_run.h"

// A trainer is a guest in a program: what it changes of it, what it does when, and what it leaves.
namespace autotrain {
namespace {

using test::SmallNet;
using test::TemporaryFolder;

// A task that a test fills in.
class Open : public Task {
 public:
  explicit Open(SmallNet::Middle middle = SmallNet::Middle::kNothing) {
    torch::manual_seed(11);
    net = std::make_shared<SmallNet>(middle);
  }
  torch::nn::Module& module() override { return *net; }
  LossTerms loss(const Batch& batch) override {
    ++calls;
    LossTerms terms{at::cross_entropy_loss(net->forward(batch.inputs), batch.targets, {}, at::Reduction::Sum),
                    torch::tensor(static_cast<double>(batch.samples))};
    if (changed_loss) changed_loss(terms, batch);
    return terms;
  }
  torch::Tensor penalty() override { return changed_penalty ? changed_penalty() : torch::Tensor(); }
  std::vector<NamedTensor> state() override { return kept; }
  void begin_update(const UpdateInfo& info) override {
    if (on_begin) on_begin(info);
  }
  void before_step(const UpdateInfo& info, Gradients& gradients) override {
    if (on_gradients) on_gradients(info, gradients);
  }
  void after_step(const UpdateInfo& info) override {
    if (on_step) on_step(info);
  }

  std::shared_ptr<SmallNet> net;
  int calls = 0;
  std::function<void(LossTerms&, const Batch&)> changed_loss;
  std::function<torch::Tensor()> changed_penalty;
  std::vector<NamedTensor> kept;
  std::function<void(const UpdateInfo&)> on_begin, on_step;
  std::function<void(const UpdateInfo&, Gradients&)> on_gradients;
};

const TensorDataset& data() {
  static const TensorDataset data = test::small_data(640);
  return data;
}

Recipe guest_recipe(int64_t updates = 6, int64_t micro = 16) {
  Recipe r = test::small_recipe();
  r.batch.effective = 64;
  r.execution.micro_batch = micro;
  r.execution.memory.budget = *Budget::parse(test::kSmallBudget);
  r.optimizer.lr = 0.01;
  r.stop = {};
  r.stop.updates = updates;
  return r;
}

uint64_t digest(const torch::nn::Module& module) {
  uint64_t hash = 1469598103934665603ull;
  const auto add = [&](const torch::Tensor& tensor) {
    const torch::Tensor dense = tensor.detach().contiguous();
    const auto* const bytes = static_cast<const unsigned char*>(dense.const_data_ptr());
    for (size_t i = 0; i < dense.nbytes(); ++i) hash = (hash ^ bytes[i]) * 1099511628211ull;
  };
  for (const auto& parameter : module.parameters()) add(parameter);
  for (const auto& buffer : module.buffers()) add(buffer);
  return hash;
}

struct House {
  torch::Tensor generator = at::globalContext().defaultGenerator(torch::kCPU).get_state();
  int threads = at::get_num_threads();
  size_t interop_threads = at::get_num_interop_threads();
  bool deterministic = at::globalContext().deterministicAlgorithms(),
       warns = at::globalContext().deterministicAlgorithmsWarnOnly(),
       fills = at::globalContext().deterministicFillUninitializedMemory(),
       benchmark = at::globalContext().benchmarkCuDNN(), repeats = at::globalContext().deterministicCuDNN(),
       gradients = at::GradMode::is_enabled(), inference = c10::InferenceMode::is_enabled();
  c10::ScalarType type = c10::typeMetaToScalarType(c10::get_default_dtype());
  std::string locale = std::setlocale(LC_ALL, nullptr), cxx_locale = std::locale().name();
  std::vector<void (*)(int)> handlers = all_handlers();
  std::vector<std::string> environment = all_variables();
  int rounding = ::fegetround();

  static std::vector<void (*)(int)> all_handlers() {
    std::vector<void (*)(int)> handlers;
    for (int number = 1; number < NSIG; ++number) {
      struct sigaction action {};
      handlers.push_back(::sigaction(number, nullptr, &action) == 0 ? action.sa_handler : nullptr);
    }
    return handlers;
  }
  static std::vector<std::string> all_variables() {
    std::vector<std::string> variables;
    for (char** each = environ; *each != nullptr; ++each) variables.emplace_back(*each);
    std::ranges::sort(variables);
    return variables;
  }
};

void expect_as_it_was(const House& before, const std::string& way) {
  const House now;
  EXPECT_TRUE(torch::equal(now.generator, before.generator)) << way;
  EXPECT_EQ(now.threads, before.threads) << way;
  EXPECT_EQ(now.interop_threads, before.interop_threads) << way;
  EXPECT_EQ(now.deterministic, before.deterministic) << way;
  EXPECT_EQ(now.warns, before.warns) << way;
  EXPECT_EQ(now.fills, before.fills) << way;
  EXPECT_EQ(now.benchmark, before.benchmark) << way;
  EXPECT_EQ(now.repeats, before.repeats) << way;
  EXPECT_EQ(now.gradients, before.gradients) << way;
  EXPECT_EQ(now.inference, before.inference) << way;
  EXPECT_EQ(now.type, before.type) << way;
  EXPECT_EQ(now.locale, before.locale) << way;
  EXPECT_EQ(now.cxx_locale, before.cxx_locale) << way;
  EXPECT_EQ(now.handlers, before.handlers) << way;
  EXPECT_EQ(now.environment, before.environment) << way;
  EXPECT_EQ(now.rounding, before.rounding) << way;
  EXPECT_TRUE(torch::full({}, 1e-40f).mul(2).item<float>() > 0) << way;
}

TEST(Guest, LeavesTheHouseAsItWasOnEveryWayOut) {
  at::set_num_threads(1);
  at::globalContext().setDeterministicAlgorithms(false, false);
  at::globalContext().setDeterministicFillUninitializedMemory(true);
  torch::manual_seed(77);
  Recipe r = guest_recipe();
  r.execution.threads = 2;
  r.execution.requeue_signal = RequeueSignal::kUsr2;
  const House before;
  {
    auto task = std::make_unique<Open>();
    at::Generator(at::globalContext().defaultGenerator(torch::kCPU)).set_state(before.generator);
    Open& open = *task;
    const torch::NoGradGuard no_gradients;
    const House without_gradients;
    Trainer trainer(r, std::move(task), data(), data(), {.write_files = false});
    expect_as_it_was(without_gradients, "construction");
    trainer.plan();
    expect_as_it_was(without_gradients, "plan");
    trainer.figure_kinds();
    expect_as_it_was(without_gradients, "figure_kinds");
    trainer.fit();
    expect_as_it_was(without_gradients, "fit");
    trainer.evaluate(data());
    expect_as_it_was(without_gradients, "evaluate");
    trainer.take(Trainer::Weights::kLast);
    expect_as_it_was(without_gradients, "take");
    EXPECT_GT(open.calls, 0);
  }
  expect_as_it_was(before, "the trainer's end");
  for (const bool plain : {true, false}) {
    auto task = std::make_unique<Open>();
    at::Generator(at::globalContext().defaultGenerator(torch::kCPU)).set_state(before.generator);
    task->changed_loss = [plain](LossTerms&, const Batch&) {
      at::set_num_threads(2);
      at::globalContext().setDeterministicAlgorithms(true, false);
      torch::manual_seed(5);
      c10::set_default_dtype(caffe2::TypeMeta::Make<double>());
      ::setenv("LRU_CACHE_CAPACITY", "7", 1);
      if (plain) throw std::runtime_error("mine");
      throw 7;
    };
    Trainer trainer(r, std::move(task), data(), {.write_files = false});
    EXPECT_ANY_THROW(trainer.fit());
    expect_as_it_was(before, plain ? "an exception" : "an odd exception");
  }
  at::globalContext().setDeterministicFillUninitializedMemory(false);
}

TEST(Guest, TrialsOfASearchInALoopDrawTheirOwnNumbers) {
  std::vector<std::unique_ptr<Task>> tasks;
  for (int i = 0; i < 3; ++i) tasks.push_back(test::small_task());
  torch::manual_seed(0);
  std::set<double> drawn;
  for (std::unique_ptr<Task>& task : tasks) {
    drawn.insert(torch::rand({1}).item<double>());
    Trainer(guest_recipe(), std::move(task), data(), {.write_files = false}).fit();
  }
  EXPECT_EQ(drawn.size(), 3);
}

TEST(Guest, ACallbackComesBeforeAnyOtherPass) {
  for (const int64_t micro : {64, 16}) {
    auto task = std::make_unique<Open>();
    Open& open = *task;
    Trainer trainer(guest_recipe(6, micro), std::move(task), data(), {.write_files = false});
    trainer.plan();
    const int64_t before = open.calls, passes = 64 / micro;
    int64_t steps = 0;
    open.on_step = [&](const UpdateInfo& info) {
      EXPECT_EQ(info.update, ++steps);
      EXPECT_EQ(open.calls, before + steps * passes);
    };
    trainer.on_update([&](const UpdateRecord& record) {
      EXPECT_EQ(open.calls, before + record.update * passes) << record.update;
      EXPECT_EQ(steps, record.update) << "the task acts first";
      return record.update == 4 ? Flow::kStop : Flow::kContinue;
    });
    EXPECT_EQ(trainer.fit().updates, 4);
    EXPECT_EQ(open.calls, before + 4 * passes) << "no pass for nothing";
  }
}

// ------------------------------------------------------------------ what is put back

TEST(Guest, ASearchPutsBackFrozenParametersWhateverWritesToThem) {
  for (const bool in_penalty : {false, true}) {
    auto task = std::make_unique<Open>();
    const std::shared_ptr<SmallNet> net = task->net;
    const torch::Tensor frozen = net->register_parameter("frozen", torch::zeros({3}), false),
                        large = net->register_buffer("large", torch::zeros({3 << 18})),
                        trained = net->first->bias;
    const torch::Tensor kept = torch::zeros({2});
    task->kept = {{"kept", kept}};
    const torch::Tensor first = trained.detach().clone();
    const auto write = [=] {
      const torch::NoGradGuard no_gradients;
      for (const torch::Tensor& each : {frozen, large, kept, trained}) each.add_(1);
    };
    if (in_penalty) task->changed_penalty = [=] { return write(), net->second->bias.square().sum(); };
    if (!in_penalty) task->changed_loss = [=](LossTerms&, const Batch&) { write(); };
    Trainer trainer(guest_recipe(), std::move(task), data(), data(), {.write_files = false});
    trainer.plan();
    for (const torch::Tensor& each : {frozen, large, kept}) EXPECT_EQ(each.abs().sum().item<double>(), 0);
    EXPECT_TRUE(torch::equal(trained, first));
  }
}

TEST(Guest, ASkippedUpdatePutsBackFrozenParametersAndState) {
  auto task = std::make_unique<Open>();
  const torch::Tensor frozen = task->net->register_parameter("frozen", torch::zeros({1}), false),
                      own = torch::zeros({1});
  task->kept = {{"own", own}};
  bool trial = true;
  int windows = 0;
  task->on_begin = [&](const UpdateInfo& info) { trial = info.trial, own.add_(1); };
  task->changed_loss = [&](LossTerms& terms, const Batch&) {
    if (!trial && ++windows == 2) terms.sum = terms.sum * NAN;
    const torch::NoGradGuard no_gradients;
    frozen.add_(1);
  };
  Trainer trainer(guest_recipe(4, 64), std::move(task), data(), {.write_files = false});
  EXPECT_EQ(trainer.fit().skipped_updates, 1);
  EXPECT_EQ(windows, 5);
  EXPECT_EQ(frozen.item<double>(), 4);
  EXPECT_EQ(own.item<double>(), 4);
}

// ------------------------------------------------------------------ places to act

TEST(Places, AQueueAndAnAverageResumeWithTheSameBits) {
  const TemporaryFolder folder;
  const auto run = [&](const std::string& name, bool resume, int64_t stop) {
    auto task = std::make_unique<Open>(SmallNet::Middle::kDropout);
    const std::shared_ptr<SmallNet> net = task->net;
    const torch::Tensor queue = torch::zeros({64, 4}), average = net->second->weight.detach().clone();
    task->kept = {{"queue", queue}, {"average", average}};
    task->changed_loss = [=](LossTerms& terms, const Batch&) {
      terms.sum = terms.sum + 0.1 * (net->second->weight.sum() * queue.sum() +
                                     (net->second->weight - average).square().sum());
    };
    task->on_step = [=](const UpdateInfo& info) {
      const torch::NoGradGuard no_gradients;
      average.lerp_(net->second->weight, 0.1);
      queue[info.update % 64].copy_(net->second->bias);
    };
    task->on_gradients = [=](const UpdateInfo&, Gradients& gradients) {
      for (const NamedTensor& each : gradients.all()) each.tensor.clamp_(-0.01, 0.01);
    };
    Trainer trainer(guest_recipe(12), std::move(task), data(), {.output = folder / name, .resume = resume});
    trainer.on_update(
        [=](const UpdateRecord& u) { return u.update == stop ? Flow::kStop : Flow::kContinue; });
    trainer.fit();
    return std::pair(digest(*net), std::pair(queue.sum().item<double>(), average.sum().item<double>()));
  };
  const auto straight = run("straight", false, 0);
  run("stopped", false, 5);
  EXPECT_EQ(run("stopped", true, 0), straight);
}

// Runs to update 5 and on from there; what was warned of meanwhile.
std::string warnings_of_resume(bool counts, bool declared, bool rises = false) {
  const TemporaryFolder folder;
  std::string warned;
  log::set_sink([&](const log::Record& record) { warned += cat(record.text, "\n"); }, log::Level::kWarning);
  for (const bool resume : {false, true}) {
    auto task = std::make_unique<Open>(SmallNet::Middle::kDropout);
    const torch::Tensor count = torch::zeros({});
    if (declared) task->kept = {{"count", count}};
    const auto share = std::make_shared<double>(1);  // which every update sets
    if (rises)
      task->on_begin = [=](const UpdateInfo& info) { *share = 0.1 * static_cast<double>(info.update); };
    task->changed_loss = [=](LossTerms& terms, const Batch&) {
      if (counts) terms.sum = terms.sum / (1 + count.add_(1).item<double>());
      terms.sum = terms.sum * *share;
    };
    Trainer trainer(guest_recipe(10), std::move(task), data(), {.output = folder / "run", .resume = resume});
    trainer.on_update([](const UpdateRecord& u) { return u.update == 5 ? Flow::kStop : Flow::kContinue; });
    trainer.fit();
  }
  log::set_sink(log::terminal_sink(), log::Level::kWarning);
  return warned;
}

TEST(Places, StateThatNobodyDeclaredIsToldOnResume) {
  EXPECT_TRUE(test::holds(warnings_of_resume(/*counts=*/true, /*declared=*/false), "Task::state"));
  EXPECT_EQ(warnings_of_resume(true, true).find("Task::state"), std::string::npos);
  EXPECT_EQ(warnings_of_resume(false, false).find("Task::state"), std::string::npos);
  EXPECT_EQ(warnings_of_resume(false, false, /*rises=*/true).find("Task::state"), std::string::npos);
}

TEST(Places, ANetThatIsLeftInEvaluationModeTrainsOnAsItWasTrained) {
  const TemporaryFolder folder;
  enum class Looks { kNever, kInACallback, kAfterAStep };
  const auto run = [&](const std::string& name, Looks looks, bool resume = false, int64_t stop = 0) {
    auto task = std::make_unique<Open>(SmallNet::Middle::kDropout);
    const std::shared_ptr<SmallNet> net = task->net;
    task->on_step = [=](const UpdateInfo& info) {
      if (looks == Looks::kAfterAStep && info.update == 2) net->eval();
    };
    Trainer trainer(guest_recipe(), std::move(task), data(), {.output = folder / name, .resume = resume});
    trainer.on_update([=](const UpdateRecord& u) {
      if (looks == Looks::kInACallback && u.update == 2) net->eval();
      return u.update == stop ? Flow::kStop : Flow::kContinue;
    });
    trainer.fit();
    return digest(*net);
  };
  const uint64_t straight = run("straight", Looks::kNever);
  EXPECT_EQ(run("callback", Looks::kInACallback), straight);
  EXPECT_EQ(run("step", Looks::kAfterAStep), straight);
  run("stopped", Looks::kInACallback, false, 4);
  EXPECT_EQ(run("stopped", Looks::kInACallback, true), straight);
}

TEST(Places, APartThatACallbackFreezesStaysInEvaluationMode) {
  auto task = std::make_unique<Open>(SmallNet::Middle::kDropout);
  const std::shared_ptr<SmallNet> net = task->net;
  bool frozen = false;  // as the callback left it
  int64_t passes = 0;
  task->changed_loss = [&](LossTerms&, const Batch&) {
    if (!frozen) return;
    EXPECT_TRUE(net->is_training() && !net->dropout->is_training() && net->first->is_training());
    ++passes;
  };
  Trainer trainer(guest_recipe(), std::move(task), data(), {.write_files = false});
  trainer.on_update([&](const UpdateRecord& u) {
    if (u.update == 2) net->dropout->eval();
    if (u.update == 4) net->eval();
    frozen = u.update >= 2;
    return Flow::kContinue;
  });
  trainer.fit();
  EXPECT_GT(passes, 0);
}

// What evaluations go by is set for each update, as a weight that rises is. @return their losses by update.
// @param fail_at the evaluation of this update ends the run: a resume owes it.
std::map<int64_t, double> evaluations_of_rising(const std::filesystem::path& folder, bool resume,
                                                int64_t fail_at = 0) {
  Recipe r = guest_recipe();
  r.evaluation.every = *Interval::parse("2 updates");
  auto task = std::make_unique<Open>();
  const auto share = std::make_shared<double>(1);
  task->on_begin = [=](const UpdateInfo& info) { *share = static_cast<double>(info.update) + info.epoch; };
  task->changed_loss = [=](LossTerms& terms, const Batch&) { terms.sum = terms.sum * *share; };
  Trainer trainer(r, std::move(task), data(), data(), {.output = folder, .resume = resume});
  std::map<int64_t, double> losses;
  trainer.on_evaluation([&](const EvaluationRecord& e) {
    losses[e.update] = e.figures.at("loss");
    if (e.update == fail_at) throw std::runtime_error("stopped here");
    return Flow::kContinue;
  });
  if (fail_at == 0) {
    trainer.fit();
  } else {
    test::expect_error(ExitCode::kBrokenContract, [&] { trainer.fit(); });
  }
  return losses;
}

TEST(Places, WhatAnUpdateSetsIsThereInAnEvaluationThatAResumeOwes) {
  const TemporaryFolder folder;
  const std::map<int64_t, double> straight = evaluations_of_rising(folder / "straight", false);
  evaluations_of_rising(folder / "stopped", false, 4);
  const std::map<int64_t, double> resumed = evaluations_of_rising(folder / "stopped", true);
  ASSERT_TRUE(straight.contains(4) && resumed.contains(4) && resumed.contains(6));
  EXPECT_EQ(resumed.at(4), straight.at(4));
  EXPECT_EQ(resumed.at(6), straight.at(6));
}

TEST(Places, WhatAnUpdateSetsIsThereInEvaluationsAfterAStop) {
  const TemporaryFolder folder;
  for (const bool files : {false, true}) {
    auto task = std::make_unique<Open>();
    const auto share = std::make_shared<double>(1);
    task->on_begin = [=](const UpdateInfo& info) { *share = static_cast<double>(info.update); };
    task->changed_loss = [=](LossTerms& terms, const Batch&) { terms.sum = terms.sum * *share; };
    Trainer trainer(guest_recipe(), std::move(task), data(), data(),
                    {.output = folder / "run", .write_files = files});
    trainer.on_update([](const UpdateRecord& u) { return u.update == 3 ? Flow::kStop : Flow::kContinue; });
    const Summary summary = trainer.fit();
    EXPECT_EQ(trainer.evaluate(data()).figures.at("loss"), summary.final.at("loss")) << files;
  }
}

TEST(Places, GradientsAreThoseOfTheMeanLossHoweverItIsCut) {
  const auto gradients_of = [](int64_t micro, int64_t lanes, bool own_penalty) {
    auto task = std::make_unique<Open>();
    const std::shared_ptr<SmallNet> net = task->net;
    std::vector<torch::Tensor> seen;
    task->on_gradients = [&](const UpdateInfo& info, Gradients& gradients) {
      if (info.trial || info.update > 1) return;
      for (const NamedTensor& each : gradients.all()) seen.push_back(each.tensor.clone());
    };
    if (own_penalty) task->changed_penalty = [=] { return net->first->weight.square().sum(); };
    Recipe r = guest_recipe(1, micro);
    r.execution.lanes = lanes;
    Trainer(r, std::move(task), data(), {.write_files = false}).fit();
    return seen;
  };
  const auto whole = gradients_of(64, 1, false);
  ASSERT_EQ(whole.size(), 4);
  for (const auto& other : {gradients_of(16, 1, false), gradients_of(16, 2, true)}) {
    for (size_t i = 0; i < whole.size(); ++i) EXPECT_TRUE(at::allclose(whole[i], other[i], 1e-4, 1e-6));
  }
}

TEST(Places, ChangedGradientsAreWhatIsApplied) {
  auto task = std::make_unique<Open>();
  const std::shared_ptr<SmallNet> net = task->net;
  const uint64_t before = digest(*net);
  task->on_gradients = [](const UpdateInfo&, Gradients& gradients) {
    for (const NamedTensor& each : gradients.all()) each.tensor.zero_();
  };
  Recipe r = guest_recipe();
  r.optimizer.algorithm = {"sgd", {}};
  double norm = -1;
  Trainer trainer(r, std::move(task), data(), {.write_files = false});
  trainer.on_update([&](const UpdateRecord& u) { return norm = u.grad_norm, Flow::kContinue; });
  trainer.fit();
  EXPECT_EQ(digest(*net), before);
  EXPECT_EQ(norm, 0);
}

TEST(Places, ABackwardPassOfTheProgramsOwnLeavesNothingInAnUpdate) {
  const auto trained = [](bool looks) {
    auto task = std::make_unique<Open>();
    const std::shared_ptr<SmallNet> net = task->net;
    const auto look = [net] {
      const torch::AutoGradMode with_gradients(true);
      net->first->weight.square().sum().backward();
    };
    if (looks) task->on_begin = task->on_step = [look](const UpdateInfo&) { look(); };
    Trainer trainer(guest_recipe(), std::move(task), data(), {.write_files = false});
    trainer.on_update([&](const UpdateRecord&) { return looks ? look() : void(), Flow::kContinue; });
    trainer.fit();
    return digest(*net);
  };
  EXPECT_EQ(trained(true), trained(false));
}

TEST(Places, WhatChangesItsShapeIsRefused) {
  auto task = std::make_unique<Open>();
  const std::shared_ptr<SmallNet> net = task->net;
  task->on_step = [net](const UpdateInfo& info) {
    if (!info.trial && info.update == 3) net->first->weight.set_data(torch::zeros({40, 40}));
  };
  Trainer trainer(guest_recipe(), std::move(task), data(), {.write_files = false});
  const Error error = test::expect_error(ExitCode::kBrokenContract, [&] { trainer.fit(); });
  EXPECT_TRUE(test::holds(error.what(), "[40, 40]")) << error.what();
}

TEST(Places, StateThatIsReplacedIsRefused) {
  auto task = std::make_unique<Open>();
  Open& open = *task;
  open.kept = {{"queue", torch::zeros({2})}};
  open.on_step = [&](const UpdateInfo&) { open.kept[0].tensor = torch::zeros({3}); };
  const TemporaryFolder folder;
  Trainer trainer(guest_recipe(), std::move(task), data(), {.output = folder / "run"});
  const Error error = test::expect_error(ExitCode::kBrokenContract, [&] { trainer.fit(); });
  EXPECT_TRUE(test::holds(error.what(), "in place"));
}

TEST(Places, AfterFitOtherDataAreEvaluatedAndOtherWeightsTaken) {
  const TemporaryFolder folder;
  Recipe r = guest_recipe(20);
  r.average.half_life = 100;
  r.evaluation.every = *Interval::parse("5 updates");
  auto task = std::make_unique<Open>();
  const std::shared_ptr<SmallNet> net = task->net;
  net->first->eval();  // a part that its owner keeps in evaluation mode
  Trainer trainer(r, std::move(task), data(), data(), {.output = folder / "run"});
  EXPECT_THROW(trainer.take(Trainer::Weights::kLast), Error);
  const Summary summary = trainer.fit();
  EXPECT_TRUE(net->is_training());
  EXPECT_FALSE(net->first->is_training());
  const uint64_t last = digest(*net);
  trainer.take(Trainer::Weights::kAverage);
  EXPECT_NE(digest(*net), last);
  EXPECT_EQ(trainer.evaluate(data()).figures.at("loss"), summary.final.at("loss"));
  trainer.take(Trainer::Weights::kBest);
  EXPECT_EQ(trainer.evaluate(data()).figures.at("loss"), summary.best.at("loss"));
  trainer.take(Trainer::Weights::kLast);
  EXPECT_EQ(digest(*net), last);
}

TEST(Places, TheBestIsTakenWithTheStateThatItWasEvaluatedWith) {
  const TemporaryFolder folder;
  Recipe r = guest_recipe();
  r.evaluation.every = *Interval::parse("1 updates");
  auto task = std::make_unique<Open>();
  const torch::Tensor scale = torch::ones({});
  task->kept = {{"scale", scale}};
  task->on_step = [=](const UpdateInfo& info) { scale.fill_(info.update == 3 ? 0.1 : 1.0); };
  task->changed_loss = [=](LossTerms& terms, const Batch&) { terms.sum = terms.sum * scale.item<double>(); };
  Trainer trainer(r, std::move(task), data(), data(), {.output = folder / "run"});
  const Summary summary = trainer.fit();
  ASSERT_EQ(summary.best.at("update"), 3);
  trainer.take(Trainer::Weights::kBest);
  EXPECT_EQ(trainer.evaluate(data()).figures.at("loss"), summary.best.at("loss"));
  trainer.take(Trainer::Weights::kLast);
  EXPECT_EQ(trainer.evaluate(data()).figures.at("loss"), summary.final.at("loss"));
}

// ------------------------------------------------------------------ random numbers

// A run that draws in its model and wherever a task acts, until update `stop`.
uint64_t bits_of_drawing_run(const std::filesystem::path& folder, bool resume = false, int64_t stop = 0,
                             const std::function<void()>& in_loss = {},
                             const std::function<void()>& in_callback = {},
                             const std::function<void()>& with_first_weights = {}) {
  auto task = std::make_unique<Open>(SmallNet::Middle::kDropout);
  if (with_first_weights) with_first_weights();
  const std::shared_ptr<SmallNet> net = task->net;
  const torch::Tensor noise = torch::zeros({});
  task->kept = {{"noise", noise}};
  task->on_begin = [=](const UpdateInfo&) { noise.copy_(torch::rand({})); };
  task->changed_loss = [=](LossTerms& terms, const Batch&) {
    if (in_loss) in_loss();
    terms.sum = terms.sum * (1 + 0.1 * noise + 0.1 * torch::rand({}));
  };
  task->on_gradients = [](const UpdateInfo&, Gradients& gradients) {
    for (const NamedTensor& each : gradients.all()) each.tensor.add_(torch::randn_like(each.tensor), 0.01);
  };
  task->on_step = [=](const UpdateInfo&) {
    const torch::NoGradGuard no_gradients;
    net->second->bias.add_(torch::randn_like(net->second->bias), 0.01);
  };
  Trainer trainer(guest_recipe(12), std::move(task), data(), {.output = folder, .resume = resume});
  trainer.on_update([=](const UpdateRecord& u) {
    if (in_callback) in_callback();
    return u.update == stop ? Flow::kStop : Flow::kContinue;
  });
  EXPECT_EQ(trainer.fit().oom_recoveries, 0) << "which would cut, and so draw, otherwise";
  return digest(*net);
}

TEST(Draws, OfAThreadOfTheProgramChangeNoBitOfARunNorDoesItRewindThem) {
  const TemporaryFolder folder;
  const uint64_t alone = bits_of_drawing_run(folder / "alone");
  torch::manual_seed(3);
  std::vector<torch::Tensor> parts;
  for (int i = 0; i < 1 << 12; ++i) parts.push_back(torch::rand({16}, torch::kFloat64));
  const torch::Tensor expected = torch::cat(parts);
  std::atomic<bool> stop{false};
  std::atomic<int64_t> drawn{0};
  std::vector<torch::Tensor> numbers;
  std::thread own;
  const auto begin_to_draw = [&] {
    torch::manual_seed(3);
    own = std::thread([&] {
      // Only the first are kept: what is no tensor's memory counts as the run's.
      torch::Tensor rest = torch::empty({16}, torch::kFloat64);
      for (; !stop || drawn < 16; ++drawn)
        drawn < 1 << 12 ? numbers.push_back(torch::rand({16}, torch::kFloat64)) : void(rest.uniform_());
    });
    test::wait_until([&] { return drawn > 0; });
  };
  EXPECT_EQ(bits_of_drawing_run(folder / "beside", false, 0, {}, {}, begin_to_draw), alone);
  stop = true;
  own.join();
  const torch::Tensor all = torch::cat(numbers).slice(0, 0, 1 << 16);
  EXPECT_TRUE(torch::equal(all, expected.slice(0, 0, all.size(0)))) << "one stream, as without the run";
}

TEST(Draws, OfCallbacksAreTheProgramsAndStayDrawn) {
  const TemporaryFolder folder;
  const uint64_t alone = bits_of_drawing_run(folder / "alone");
  torch::manual_seed(5);
  const torch::Tensor expected = torch::rand({13});
  std::vector<torch::Tensor> drawn;
  EXPECT_EQ(bits_of_drawing_run(
                folder / "beside", false, 0, {}, [&] { drawn.push_back(torch::rand({1})); },
                [] { torch::manual_seed(5); }),
            alone);
  drawn.push_back(torch::rand({1}));
  EXPECT_TRUE(torch::equal(torch::cat(drawn), expected));
}

TEST(Draws, DoNotDependOnASeedThatTheTaskGivesTheGlobalGeneratorAndThatIsTold) {
  const TemporaryFolder folder;
  const uint64_t alone = bits_of_drawing_run(folder / "alone");
  const torch::Tensor before = at::globalContext().defaultGenerator(torch::kCPU).get_state();
  std::string warned;
  log::set_sink([&](const log::Record& record) { warned += record.text; }, log::Level::kWarning);
  EXPECT_EQ(bits_of_drawing_run(folder / "seeded", false, 0, [] { torch::manual_seed(1); }), alone);
  log::set_sink(log::terminal_sink(), log::Level::kWarning);
  EXPECT_TRUE(test::holds(warned, "cpu_generator"));
  EXPECT_TRUE(torch::equal(at::globalContext().defaultGenerator(torch::kCPU).get_state(), before));
}

TEST(Draws, WhereverATaskActsAreTheSameAfterAResume) {
  const TemporaryFolder folder;
  const uint64_t straight = bits_of_drawing_run(folder / "straight");
  bits_of_drawing_run(folder / "stopped", false, 5);
  EXPECT_EQ(bits_of_drawing_run(folder / "stopped", true), straight);
}

// Evaluates with noise.
class Noisy final : public Open {
 public:
  EvaluationTerms evaluate(const Batch& batch) override {
    Batch noisy = batch;
    noisy.inputs = batch.inputs + at::randn(batch.inputs.sizes(), cpu_generator());
    return {loss(noisy)};
  }
};

// An evaluation that a resume owes is the one that the run would have made.
TEST(Draws, OfAnEvaluationAreTheSameAfterAResumeAndAtEveryTime) {
  const TemporaryFolder folder;
  Recipe r = guest_recipe(6);
  r.evaluation.every = *Interval::parse("2 updates");
  const auto losses = [&](const std::string& name, bool resume, bool breaks) {
    std::map<int64_t, double> seen;
    Trainer trainer(r, std::make_unique<Noisy>(), data(), data(),
                    {.output = folder / name, .resume = resume});
    trainer.on_evaluation([&](const EvaluationRecord& record) {
      seen[record.update] = record.figures.at("loss");
      if (breaks && record.update == 4) throw std::runtime_error("stopped");
      return Flow::kContinue;
    });
    try {
      trainer.fit();
      EXPECT_EQ(trainer.evaluate(data()).figures.at("loss"), trainer.evaluate(data()).figures.at("loss"));
    } catch (const Error&) {
      EXPECT_TRUE(breaks);
    }
    return seen;
  };
  const std::map<int64_t, double> straight = losses("straight", false, false);
  losses("broken", false, true);
  const std::map<int64_t, double> resumed = losses("broken", true, false);
  ASSERT_EQ(straight.size(), 3u);
  ASSERT_TRUE(resumed.contains(4) && resumed.contains(6));
  for (const auto& [update, loss] : resumed) EXPECT_EQ(loss, straight.at(update)) << update;
}

TEST(Draws, ComeFromTheGeneratorThatIsNamed) {
  auto task = std::make_unique<Open>();
  at::Generator named = at::make_generator<at::CPUGeneratorImpl>(9);
  const torch::Tensor expected = at::rand({4}, at::make_generator<at::CPUGeneratorImpl>(9));
  torch::Tensor drawn;
  bool own = false;
  task->changed_loss = [&](LossTerms&, const Batch&) {
    if (!drawn.defined()) drawn = at::rand({4}, named);
    own = cpu_generator() != at::globalContext().defaultGenerator(torch::kCPU);
  };
  Trainer(guest_recipe(), std::move(task), data(), {.write_files = false}).fit();
  EXPECT_TRUE(torch::equal(drawn, expected));
  EXPECT_TRUE(own);
  EXPECT_EQ(cpu_generator(), at::globalContext().defaultGenerator(torch::kCPU));
}

// Asks which samples its batches hold.
class Naming final : public Open {
 public:
  bool names_samples() const override { return true; }
};

TEST(Draws, OfASampleAreItsOwnHoweverAnUpdateIsCut) {
  const auto losses_of = [](int64_t micro, int64_t lanes, std::vector<int64_t>* seen = nullptr) {
    auto task = std::make_unique<Naming>();
    const std::shared_ptr<SmallNet> net = task->net;
    task->changed_loss = [=](LossTerms& terms, const Batch& batch) {
      const torch::Tensor noisy =
          batch.inputs + randn_like(batch.inputs, batch, 0) * rand_like(batch.inputs, batch, 1);
      terms.sum = at::cross_entropy_loss(net->forward(noisy), batch.targets, {}, at::Reduction::Sum);
      if (seen == nullptr) return;
      for (int64_t i = 0; i < batch.samples; ++i) seen->push_back(batch.indices[i].item<int64_t>());
    };
    Recipe r = guest_recipe(20, micro);
    r.execution.lanes = lanes;
    r.optimizer.algorithm = {"sgd", {}};
    std::vector<double> losses;
    Trainer trainer(r, std::move(task), data(), data(), {.write_files = false});
    trainer.on_update([&](const UpdateRecord& u) { return losses.push_back(u.loss), Flow::kContinue; });
    losses.push_back(trainer.fit().final.at("loss"));
    return losses;
  };
  std::vector<int64_t> seen;
  const std::vector<double> whole = losses_of(64, 1, &seen);
  EXPECT_EQ(std::set<int64_t>(seen.begin(), seen.end()).size(), 640) << "all samples, by their own numbers";
  for (const std::vector<double>& cut : {losses_of(16, 1), losses_of(16, 2)}) {
    ASSERT_EQ(cut.size(), 21);
    for (size_t i = 0; i < cut.size(); ++i) EXPECT_NEAR(cut[i] / whole[i], 1, 1e-4) << i;
  }
}

TEST(Draws, OfABatchHaveTheMomentsOfTheirDistributionAndDifferByDraw) {
  Batch batch{.inputs = torch::zeros({4}), .samples = 4, .keys = torch::tensor({1, 2, 3, -4}, torch::kInt64)};
  for (const auto type : {torch::kFloat32, torch::kFloat64, torch::kBFloat16}) {
    const torch::Tensor like = torch::empty({4, 1 << 16}, type);
    const torch::Tensor normal = randn_like(like, batch, 0).to(torch::kFloat64),
                        uniform = rand_like(like, batch, 0).to(torch::kFloat64);
    EXPECT_TRUE(at::isfinite(normal).all().item<bool>());
    // 2¹⁶ numbers a row: six standard errors of mean and variance.
    EXPECT_LT(normal.mean(1).abs().max().item<double>(), 6.0 / 256);
    EXPECT_LT((normal.var(1) - 1).abs().max().item<double>(), 6 * std::sqrt(2.0) / 256);
    EXPECT_LT((uniform.mean(1) - 0.5).abs().max().item<double>(), 6 * std::sqrt(1.0 / 12) / 256 + 1.0 / 512);
    EXPECT_GE(uniform.min().item<double>(), 0);
    EXPECT_LT(uniform.max().item<double>(), 1);
  }
  const torch::Tensor like = torch::empty({4, 1 << 16}), first = randn_like(like, batch, 0);
  EXPECT_LT((first * randn_like(like, batch, 1)).mean().abs().item<double>(), 6.0 / 512) << "of another draw";
  EXPECT_LT((first[0] * first[1]).mean().abs().item<double>(), 6.0 / 256) << "of another sample";
  EXPECT_TRUE(torch::equal(
      first[2], randn_like(like.slice(0, 2, 3), {.samples = 1, .keys = batch.keys.slice(0, 2, 3)}, 0)[0]));
  test::expect_error(ExitCode::kBrokenContract, [&] { randn_like(like, {.samples = 4}, 0); });
  test::expect_error(ExitCode::kBrokenContract, [&] { randn_like(like.slice(0, 0, 3), batch, 0); });
}

// ------------------------------------------------------------------ parts of a loss

TEST(Parts, AreThoseOfTheWholeUpdateHoweverItIsCutAndAreWritten) {
  const TemporaryFolder folder;
  const auto parts_of = [&](int64_t micro, int64_t lanes) {
    auto task = std::make_unique<Open>();
    const std::shared_ptr<SmallNet> net = task->net;
    task->changed_loss = [=](LossTerms& terms, const Batch& batch) {
      const torch::Tensor size = net->forward(batch.inputs).square().sum();
      terms.parts = {{"likelihood", terms.sum}, {"size", 0.01 * size}};
      terms.sum = terms.sum + 0.01 * size;
    };
    Recipe r = guest_recipe(4, micro);
    r.execution.lanes = lanes;
    r.optimizer.algorithm = {"sgd", {}};
    const std::filesystem::path path = folder / cat(micro, "-", lanes);
    Trainer trainer(r, std::move(task), data(), data(), {.output = path});
    std::vector<double> parts;
    trainer.on_update([&](const UpdateRecord& u) {
      EXPECT_EQ(u.loss_parts.size(), 2);
      EXPECT_NEAR(u.loss_parts.at("likelihood") + u.loss_parts.at("size"), u.loss, 1e-5 * u.loss);
      parts.push_back(u.loss_parts.at("size"));
      return Flow::kContinue;
    });
    const Summary summary = trainer.fit();
    EXPECT_NEAR(summary.final.at("loss.likelihood") + summary.final.at("loss.size"), summary.final.at("loss"),
                1e-5 * summary.final.at("loss"));
    std::vector<double> written;
    for (const auto& row : read_metrics(path / "metrics.jsonl"))
      if (row.at("kind") == "update") written.push_back(row.at("loss_parts").at("size"));
    EXPECT_EQ(written, parts);
    return parts;
  };
  const std::vector<double> whole = parts_of(64, 1);
  ASSERT_EQ(whole.size(), 4);
  for (const std::vector<double>& cut : {parts_of(16, 1), parts_of(16, 2)})
    for (size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(cut[i] / whole[i], 1, 1e-4);
}

TEST(Parts, ThatChangeTheirNamesAreRefused) {
  const auto expect_refused = [](const std::string& words,
                                 const std::function<std::vector<NamedTensor>(int)>& parts) {
    auto task = std::make_unique<Open>();
    Open& open = *task;
    task->changed_loss = [&, parts](LossTerms& terms, const Batch&) { terms.parts = parts(open.calls); };
    const Error error = test::expect_error(ExitCode::kBrokenContract, [&] {
      Trainer(guest_recipe(), std::move(task), data(), {.write_files = false}).fit();
    });
    EXPECT_TRUE(test::holds(error.what(), words)) << error.what();
  };
  const torch::Tensor one = torch::ones({});
  expect_refused("a, and gave none", [=](int call) {
    return call > 3 ? std::vector<NamedTensor>{{"a", one}} : std::vector<NamedTensor>{};
  });
  expect_refused("two parts", [=](int) { return std::vector<NamedTensor>{{"a", one}, {"a", one}}; });
  expect_refused("LossTerms::parts", [=](int) { return std::vector<NamedTensor>{{"a", torch::ones({2})}}; });
  expect_refused("16 at most", [=](int) {
    std::vector<NamedTensor> parts;
    for (int i = 0; i < 17; ++i) parts.push_back({cat("part ", i), one});
    return parts;
  });
}

TEST(Places, WeightsOfACheckpointAreTakenBeforeFit) {
  const TemporaryFolder folder;
  const auto run = [&](const std::string& name, const std::string& from) {
    auto task = std::make_unique<Open>();
    const std::shared_ptr<SmallNet> net = task->net;
    Recipe r = guest_recipe(from.empty() ? 3 : 1);
    r.optimizer.lr = from.empty() ? 0.1 : 1e-30;
    r.average.half_life = 100;
    Trainer trainer(r, std::move(task), data(), {.output = folder / name});
    if (!from.empty()) trainer.load_weights(folder / from / "checkpoints" / "update-3" / "model.safetensors");
    trainer.fit();
    test::expect_error(ExitCode::kUsage, [&] { trainer.load_weights("x.safetensors"); });
    const uint64_t last = digest(*net);
    if (!from.empty()) {
      trainer.take(Trainer::Weights::kAverage);
      EXPECT_EQ(digest(*net), last) << "averages begin with them";
    }
    return last;
  };
  const uint64_t first = run("first", "");
  EXPECT_EQ(run("second", "first"), first);
  auto task = std::make_unique<Open>();
  Trainer trainer(guest_recipe(), std::move(task), data(), {.write_files = false});
  test::expect_error(ExitCode::kMissingFile, [&] { trainer.load_weights(folder / "none.safetensors"); });
}

// ------------------------------------------------------------------ what the split check calls things

// A layer of 8 features over 8 features, with a loss that a test gives.
class Square final : public Task {
 public:
  explicit Square(std::function<torch::Tensor(const torch::Tensor& inputs, const torch::Tensor& weight)> loss)
      : loss_(std::move(loss)) {}
  torch::nn::Module& module() override { return *layer_; }
  LossTerms loss(const Batch& batch) override {
    return {loss_(batch.inputs, layer_->weight), torch::tensor(static_cast<double>(batch.samples))};
  }

 private:
  std::function<torch::Tensor(const torch::Tensor&, const torch::Tensor&)> loss_;
  std::shared_ptr<torch::nn::LinearImpl> layer_ =
      std::make_shared<torch::nn::LinearImpl>(torch::nn::LinearOptions(8, 8).bias(false));
};

std::string split_words(std::function<torch::Tensor(const torch::Tensor&, const torch::Tensor&)> loss) {
  const TensorDataset eight(torch::linspace(-1, 1, 640 * 8).view({640, 8}));
  Trainer trainer(guest_recipe(), std::make_unique<Square>(std::move(loss)), eight, {.write_files = false});
  return trainer.plan().split_check;
}

torch::Tensor squares(const torch::Tensor& x, const torch::Tensor& weight) {
  return x.matmul(weight.t()).square().sum();
}

TEST(SplitCheck, NamesWhatDrawsAndNotWhatItIsFirstSeenIn) {
  const std::string words = split_words(
      [](const torch::Tensor& x, const torch::Tensor& w) { return squares(x + torch::randn_like(x), w); });
  EXPECT_TRUE(test::holds(words, "random numbers")) << words;
  EXPECT_EQ(words.find("mixes"), std::string::npos) << words;
}

TEST(SplitCheck, CallsACarriedStateByItsName) {
  const auto state = std::make_shared<torch::Tensor>(torch::zeros({1, 8}));
  const std::string words = split_words([state](const torch::Tensor& x, const torch::Tensor& w) {
    const torch::Tensor hidden = torch::tanh(x.matmul(w.t()) + *state);
    *state = hidden.detach().slice(0, -1);
    return hidden.square().sum();
  });
  EXPECT_TRUE(test::holds(words, "leaves behind")) << words;
  EXPECT_EQ(words.find("mixes"), std::string::npos) << words;
}

TEST(SplitCheck, FindsMixingBesideDraws) {
  for (const bool draws : {false, true}) {
    const std::string words = split_words([draws](const torch::Tensor& x, const torch::Tensor& w) {
      const torch::Tensor y = (draws ? x + 1e-2 * torch::randn_like(x) : x).matmul(w.t());
      return y.matmul(y.t()).log_softmax(1).diagonal().sum();
    });
    EXPECT_TRUE(test::holds(words, "mixes samples")) << words;
  }
}

TEST(SplitCheck, CallsAMeanInThePlaceOfASumByItsName) {
  const std::string words =
      split_words([](const torch::Tensor& x, const torch::Tensor& w) { return squares(x, w) / x.size(0); });
  EXPECT_TRUE(test::holds(words, "looks like a mean")) << words;
  EXPECT_EQ(words.find("mixes"), std::string::npos) << words;
}

TEST(SplitCheck, CallsGradientsThatAreClippedOnTheWayByTheirName) {
  const std::string words = split_words([](const torch::Tensor& x, const torch::Tensor& w) {
    const torch::Tensor y = x.matmul(w.t());
    if (y.requires_grad())
      y.register_hook([](const torch::Tensor& gradient) { return gradient.clamp(-10, 10); });
    return y.square().sum();
  });
  EXPECT_TRUE(test::holds(words, "clips or normalises")) << words;
}

// Scaled as it is in training, another part of the gradient is clipped.
TEST(SplitCheck, IsMadeOfClippedGradientsOfABatchThatIsNotCut) {
  for (const bool clips : {false, true}) {
    auto task = std::make_unique<Open>();
    for (torch::Tensor& each : task->net->parameters()) {
      if (clips)
        each.register_hook([](const torch::Tensor& gradient) { return gradient.clamp(-0.05, 0.05); });
    }
    Trainer trainer(guest_recipe(6, 64), std::move(task), data(), {.write_files = false});
    const std::string words = trainer.plan().split_check;
    EXPECT_EQ(words.find("clips or normalises") != std::string::npos, clips) << words;
    EXPECT_EQ(words.empty(), !clips) << words;
  }
}

TEST(SplitCheck, ComesAfterWhatATaskMakesForAnUpdate) {
  for (const int64_t micro : {16, 64}) {
    auto task = std::make_unique<Open>();
    torch::Tensor weight;
    task->on_begin = [&](const UpdateInfo&) { weight = torch::full({}, 2.0); };
    task->changed_loss = [&](LossTerms& terms, const Batch&) { terms.sum = terms.sum * weight; };
    Trainer trainer(guest_recipe(2, micro), std::move(task), data(), {.write_files = false});
    EXPECT_EQ(trainer.fit().updates, 2) << micro;
  }
}

TEST(SplitCheck, LetsIndependentSamplesPassWhoseNumbersAreAsManyAsFeatures) {
  EXPECT_TRUE(test::holds(split_words(squares), "rounding"));
}

// Two parameters that are only added up have one gradient between them; that of a sum is one number for all.
class SharingGradients final : public Task {
 public:
  SharingGradients() {
    for (const char* name : {"a", "b", "summed"}) module_->register_parameter(name, torch::ones({8}));
  }
  torch::nn::Module& module() override { return *module_; }
  LossTerms loss(const Batch& batch) override {
    const auto own = module_->named_parameters();
    const torch::Tensor y = batch.inputs * (own["a"] + own["b"]);
    return {y.square().sum() + static_cast<double>(batch.samples) * own["summed"].sum(),
            torch::tensor(static_cast<double>(batch.samples))};
  }

 private:
  std::shared_ptr<torch::nn::Module> module_ = std::make_shared<torch::nn::Module>();
};

TEST(SplitCheck, TakesGradientsThatShareMemory) {
  const TensorDataset eight(torch::linspace(-1, 1, 640 * 8).view({640, 8}));
  Trainer trainer(guest_recipe(), std::make_unique<SharingGradients>(), eight, {.write_files = false});
  const std::string words = trainer.plan().split_check;
  EXPECT_TRUE(test::holds(words, "rounding")) << words;
}

// ------------------------------------------------------------------ threads and memory

TEST(Guest, ARunBesideAnotherThreadsRunIsRefusedAtOnce) {
  auto task = std::make_unique<Open>();
  Trainer other(guest_recipe(), test::small_task(), data(), {.write_files = false});
  std::string refused;
  Trainer trainer(guest_recipe(), std::move(task), data(), {.write_files = false});
  trainer.on_update([&](const UpdateRecord&) {
    std::thread([&] {
      try {
        other.fit();
      } catch (const Error& error) {
        refused = error.what();
      }
    }).join();
    return Flow::kStop;
  });
  trainer.fit();
  EXPECT_TRUE(test::holds(refused, "another thread"));
  EXPECT_EQ(other.fit().updates, 6) << "it was left as it was";
}

TEST(Guest, WhatTheProgramTakesIsNotTheRunsBudget) {
  auto task = std::make_unique<Open>();
  Trainer trainer(guest_recipe(), std::move(task), data(), {.write_files = false});
  const torch::Tensor between = torch::ones({32 << 20});  // 128 MiB of 64
  torch::Tensor in_callback, in_thread;
  trainer.on_update([&](const UpdateRecord&) {
    in_callback = torch::ones({32 << 20});
    std::thread([&] { in_thread = torch::ones({32 << 20}); }).join();
    return Flow::kContinue;
  });
  const Summary summary = trainer.fit();
  EXPECT_EQ(summary.oom_recoveries, 0);
  EXPECT_EQ(summary.updates, 6);
}

TEST(Guest, AThreadOfTheProgramComputesWhileTrainersComeAndGo) {
  std::atomic<bool> stop{false};
  std::atomic<int64_t> done{0};
  std::thread own([&] {
    torch::nn::Conv2d convolution(torch::nn::Conv2dOptions(3, 8, 3));
    while (!stop) {
      convolution(torch::ones({2, 3, 16, 16}, torch::requires_grad())).sum().backward();
      ++done;
    }
  });
  test::wait_until([&] { return done > 0; });
  for (int i = 0; i < 8; ++i)
    Trainer(guest_recipe(), test::small_task(), data(), {.write_files = false}).fit();
  stop = true;
  own.join();
}

// ------------------------------------------------------------------ what an own task may not do, or may

TEST(OwnTask, KeysThatItDoesNotReadAreRefusedByName) {
  const auto expect_refused = [](const std::string& key, const std::function<void(Recipe&)>& change) {
    Recipe r = guest_recipe();
    change(r);
    const Error error = test::expect_error(
        ExitCode::kBadRecipe, [&] { Trainer(r, test::small_task(), data(), {.write_files = false}); });
    EXPECT_TRUE(test::holds(error.what(), key));
  };
  expect_refused("freeze", [](Recipe& r) { r.freeze = {"first.*"}; });
  expect_refused("weights.file", [](Recipe& r) { r.weights.file = "here.safetensors"; });
  expect_refused("lora", [](Recipe& r) { r.lora.rank = 4; });
  expect_refused("loss.name", [](Recipe& r) { r.loss = {"mse", {}}; });
  expect_refused("evaluation.metrics", [](Recipe& r) { r.evaluation.metrics = {"accuracy"}; });
}

TEST(OwnTask, WhatNoRunCanTrainOrSaveIsRefusedByName) {
  const auto refusal = [](const std::function<void(Open&)>& change) {
    auto task = std::make_unique<Open>();
    change(*task);
    const Error error = test::expect_error(ExitCode::kBrokenContract, [&] {
      Trainer(guest_recipe(), std::move(task), data(), {.write_files = false}).fit();
    });
    return std::string(error.what());
  };
  const torch::Tensor table = torch::zeros({4, 6});
  const auto view = [&](Open& task) { task.net->register_parameter("view", table.slice(1, 0, 6, 2)); };
  const auto repeated = [](Open& task) {
    task.net->register_parameter("repeated", torch::zeros({3, 1}).expand({3, 4}));
  };
  const auto wide = [](Open& task) {
    task.net->register_parameter("wide", torch::zeros({3}, torch::kFloat64));
  };
  const auto complex = [](Open& task) {
    task.net->register_buffer("rotations", torch::zeros({3}, torch::kComplexFloat));
  };
  const auto expanded = [](Open& task) {
    task.net->register_buffer("expanded", torch::zeros({3, 1}).expand({3, 4}));
  };
  const auto state = [](Open& task) { task.kept = {{"count", torch::zeros({2}, torch::kUInt16)}}; };
  const auto unnamed = [](Open& task) { task.net->register_buffer("caf\xe9", torch::zeros({2})); };
  const auto metadata = [](Open& task) { task.kept = {{"__metadata__", torch::zeros({2})}}; };
  const std::vector<std::pair<std::function<void(Open&)>, std::string>> cases = {
      {unnamed, "no file of tensors can hold"},
      {metadata, "no file of tensors can hold"},
      {view, "has view learn"},
      {repeated, "has repeated learn"},
      {wide, "double"},
      {complex, "rotations of c10::complex"},
      {expanded, "expanded"},
      {state, "count"}};
  for (const auto& [change, said] : cases) {
    const std::string text = refusal(change);
    EXPECT_TRUE(test::holds(text, said)) << text;
  }
}

// A figure that the run goes by and that one evaluation lacks.
TEST(OwnTask, AMonitoredFigureThatIsMissingIsRefusedByName) {
  class Fickle final : public Open {
   public:
    EvaluationTerms evaluate(const Batch& batch) override {
      EvaluationTerms terms{loss(batch)};
      terms.metrics = {mean_figure("score", {}, torch::ones({}), torch::ones({}))};
      if (updates > 2) terms.metrics = {mean_figure("other", {}, torch::ones({}), torch::ones({}))};
      return terms;
    }
    void after_step(const UpdateInfo& info) override { updates = info.trial ? 0 : info.update; }
    int64_t updates = 0;
  };
  Recipe r = guest_recipe(6);
  r.evaluation.every = *Interval::parse("2 updates");
  r.evaluation.monitor = "score";
  Trainer trainer(r, std::make_unique<Fickle>(), data(), data(), {.write_files = false});
  const Error error = test::expect_error(ExitCode::kBrokenContract, [&] { trainer.fit(); });
  EXPECT_TRUE(test::holds(error.what(), "gives no score at update 4")) << error.what();
}

TEST(OwnTask, AnEvaluationWithinARunSaysWhereItStands) {
  Trainer trainer(guest_recipe(6), std::make_unique<Open>(), data(), {.write_files = false});
  std::vector<int64_t> said;
  trainer.on_update([&](const UpdateRecord&) {
    said.push_back(trainer.evaluate(data()).update);
    return Flow::kContinue;
  });
  trainer.fit();
  EXPECT_EQ(said, (std::vector<int64_t>{1, 2, 3, 4, 5, 6}));
}

TEST(OwnTask, ACallbackThatAddsAnotherIsLeftWhereItIs) {
  Trainer trainer(guest_recipe(6), std::make_unique<Open>(), data(), {.write_files = false});
  const std::string long_one(64, 'x');  // which the function object keeps beside itself
  int64_t first = 0, others = 0;
  trainer.on_update([&, long_one](const UpdateRecord&) {
    for (int i = 0; i < 20; ++i) {
      trainer.on_update([&](const UpdateRecord&) {
        ++others;
        return Flow::kContinue;
      });
    }
    first += std::ssize(long_one);
    return Flow::kContinue;
  });
  trainer.fit();
  EXPECT_EQ(first, 6 * 64);
  EXPECT_EQ(others, 20 * (1 + 2 + 3 + 4 + 5));
}

TEST(OwnTask, Float64IsRefusedByOptimizersThatComputeInFloat32) {
  for (const char* const name : {"lamb", "lars", "lion", "nadamw"}) {
    auto task = std::make_unique<Open>();
    task->net->to(torch::kFloat64);
    Recipe r = guest_recipe();
    r.optimizer.algorithm = {name, {}};
    const Error error = test::expect_error(
        ExitCode::kBadRecipe, [&] { Trainer(r, std::move(task), data(), {.write_files = false}).fit(); });
    EXPECT_TRUE(test::holds(error.what(), "computes in float32")) << name << error.what();
  }
}

TEST(OwnTask, AResumeWithoutFilesIsRefused) {
  Trainer trainer(guest_recipe(), std::make_unique<Open>(), data(), {.write_files = false, .resume = true});
  test::expect_error(ExitCode::kUsage, [&] { trainer.fit(); });
}

// No shared_ptr holds it.
struct WithAPlainMember final : Task {
  explicit WithAPlainMember(SmallNet::Middle middle) : net(middle) {}
  torch::nn::Module& module() override { return net; }
  LossTerms loss(const Batch& batch) override {
    return {at::cross_entropy_loss(net.forward(batch.inputs), batch.targets, {}, at::Reduction::Sum),
            torch::tensor(static_cast<double>(batch.samples))};
  }
  SmallNet net;
};

TEST(OwnTask, AModuleThatIsAPlainMemberIsTrained) {
  for (const auto middle :
       {SmallNet::Middle::kNothing, SmallNet::Middle::kDropout, SmallNet::Middle::kBatchNorm}) {
    Trainer trainer(guest_recipe(), std::make_unique<WithAPlainMember>(middle), data(), data(),
                    {.write_files = false});
    EXPECT_EQ(trainer.fit().updates, 6);
  }
}

TEST(OwnTask, ATrainerThatWasMovedFromIsRefused) {
  Trainer first(guest_recipe(), std::make_unique<Open>(), data(), {.write_files = false});
  Trainer second = std::move(first);
  const std::vector<std::function<void()>> calls = {
      [&] { first.plan(); },
      [&] { first.fit(); },
      [&] { first.evaluate(data()); },
      [&] { first.take(Trainer::Weights::kLast); },
      [&] { first.module(); },
      [&] { first.on_update([](const UpdateRecord&) { return Flow::kContinue; }); }};
  for (const auto& call : calls)
    EXPECT_TRUE(test::holds(test::expect_error(ExitCode::kUsage, call).what(), "was moved into another one"));
  first = std::move(second);
  EXPECT_EQ(first.fit().updates, 6);
}

TEST(OwnTask, ATaskThatIsNotThereIsRefused) {
  test::expect_error(ExitCode::kUsage,
                     [&] { Trainer(guest_recipe(), nullptr, data(), {.write_files = false}); });
  test::expect_error(ExitCode::kUsage, [&] { supervised(std::shared_ptr<SmallNet>(), cross_entropy()); });
}

TEST(OwnTask, ASumInHalfPrecisionIsRefused) {
  auto task = std::make_unique<Open>();
  task->changed_loss = [](LossTerms& terms, const Batch&) { terms.sum = terms.sum.to(torch::kBFloat16); };
  Trainer trainer(guest_recipe(), std::move(task), data(), {.write_files = false});
  const Error error = test::expect_error(ExitCode::kBrokenContract, [&] { trainer.fit(); });
  EXPECT_TRUE(test::holds(error.what(), "float32"));
}

TEST(OwnTask, ThrowingWhatIsNoExceptionLeavesStateAndSummary) {
  const TemporaryFolder folder;
  auto task = std::make_unique<Open>();
  Open& open = *task;
  open.on_begin = [](const UpdateInfo& info) {
    if (info.update == 4 && !info.trial) throw 7;
  };
  Trainer trainer(guest_recipe(), std::move(task), data(), {.output = folder / "run"});
  int thrown = 0;
  try {
    trainer.fit();
  } catch (int number) {
    thrown = number;
  }
  EXPECT_EQ(thrown, 7);
  const auto summary = test::read_json(folder / "run" / "summary.json");
  EXPECT_EQ(summary.at("status"), "failed");
  EXPECT_TRUE(test::holds(summary.at("error"), "threw int"));
  EXPECT_NE(test::model_digest(folder / "run", 3), 0) << "the state up to the last whole update";
}

TEST(OwnTask, ALossThatDifferentiatesIsEvaluatedToo) {
  auto task = std::make_unique<Open>();
  const std::shared_ptr<SmallNet> net = task->net;
  task->changed_loss = [=](LossTerms& terms, const Batch& batch) {
    const torch::Tensor x = batch.inputs.detach().requires_grad_();
    const torch::Tensor y = net->forward(x).sum();
    terms.sum = terms.sum + torch::autograd::grad({y}, {x}, {}, true, true)[0].square().sum();
  };
  Trainer trainer(guest_recipe(), std::move(task), data(), data(), {.write_files = false});
  EXPECT_TRUE(std::isfinite(trainer.fit().final.at("loss")));
}

TEST(OwnTask, ALossThatDrawsAndDifferentiatesIsEvaluatedAlikeFromTheFirstTimeOn) {
  auto task = std::make_unique<Open>();
  const std::shared_ptr<SmallNet> net = task->net;
  task->changed_loss = [=](LossTerms& terms, const Batch& batch) {
    const torch::Tensor x = (batch.inputs + at::randn_like(batch.inputs)).requires_grad_();
    terms.sum = torch::autograd::grad({net->forward(x).sum()}, {x}, {}, true, true)[0].square().sum();
  };
  Trainer trainer(guest_recipe(), std::move(task), data(), {.write_files = false});
  const double first = trainer.evaluate(data()).figures.at("loss");
  EXPECT_EQ(trainer.evaluate(data()).figures.at("loss"), first);
}

TEST(OwnTask, AFailureOfTheProgramsOwnIsNoLackOfMemory) {
  auto task = std::make_unique<Open>();
  task->on_begin = [](const UpdateInfo& info) {
    if (info.update == 3)
      throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again), "my server");
  };
  Trainer trainer(guest_recipe(), std::move(task), data(), {.write_files = false});
  const Error error = test::expect_error(ExitCode::kBrokenContract, [&] { trainer.fit(); });
  EXPECT_TRUE(test::holds(error.what(), "my server")) << error.what();
}

TEST(Guest, ASweepWithinARunIsRefused) {
  SmallNet net;
  const auto swept = [&] {
    sweep(net,
          [](int64_t samples) {
            return torch::zeros({samples, 6});
          },
          {.batches = {1}, .rounds = 1, .max_seconds = 0.01, .roofline = false});
  };
  int refused = 0;
  const auto expect_refused = [&] {
    const Error error = test::expect_error(ExitCode::kUsage, swept);
    EXPECT_TRUE(test::holds(error.what(), "while a run"));
    ++refused;
  };
  auto task = std::make_unique<Open>();
  task->on_step = [&](const UpdateInfo& info) {
    if (info.update == 1) expect_refused();
  };
  Trainer trainer(guest_recipe(2), std::move(task), data(), {.write_files = false});
  trainer.on_update([&](const UpdateRecord&) {
    expect_refused();
    std::thread(expect_refused).join();
    return Flow::kContinue;
  });
  trainer.fit();
  EXPECT_EQ(refused, 5);
  swept();
}

}  // namespace
}  // namespace autotrain
