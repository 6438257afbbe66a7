#include "setup/users_code.h"

#include <cmath>

#include "autotrain/trainer.h"
#include "report/run_history.h"
#include "support/small_run.h"

namespace autotrain {
namespace {

namespace fs = std::filesystem;
using test::SmallNet;
using test::TemporaryFolder;

// SmallNet whose loss and evaluation are changed before they are returned.
class Altered final : public Task {
 public:
  using Change = std::function<void(EvaluationTerms& terms, const Batch& batch, bool evaluation)>;
  explicit Altered(Change change) : change_(std::move(change)) {}

  torch::nn::Module& module() override { return inner_->module(); }
  LossTerms loss(const Batch& batch) override {
    EvaluationTerms terms{inner_->loss(batch), {}};
    change_(terms, batch, false);
    return terms.loss;
  }
  EvaluationTerms evaluate(const Batch& batch) override {
    EvaluationTerms terms = inner_->evaluate(batch);
    change_(terms, batch, true);
    return terms;
  }

 private:
  std::unique_ptr<Task> inner_ = test::small_task();
  Change change_;
};

Recipe short_run() {
  Recipe r = test::recipe();
  r.execution.micro_batch = 50;
  r.stop = {};
  r.stop.updates = 4;
  return r;
}

Summary fit_altered(const Recipe& r, const fs::path& folder, Altered::Change change) {
  const auto train = test::small_data(1000), validation = test::small_data(60, 8);
  return Trainer(r, std::make_unique<Altered>(std::move(change)), train, validation, {.output = folder})
      .fit();
}

struct BadTask {
  const char* name;
  Altered::Change change;
  std::vector<std::string> said;
};

class TaskOfTheUser : public testing::TestWithParam<BadTask> {};

TEST_P(TaskOfTheUser, IsToldWhatItBreaksAndTheRunFailed) {
  const TemporaryFolder folder;
  const Error error = test::expect_error(
      ExitCode::kBrokenContract, [&] { fit_altered(short_run(), folder / "run", GetParam().change); });
  for (const std::string& part : GetParam().said) EXPECT_TRUE(test::holds(error.what(), part));
  const auto summary = test::read_json(folder / "run" / "summary.json");
  EXPECT_EQ(summary.at("status"), "failed");
  EXPECT_EQ(summary.at("exit_code"), 77);
  EXPECT_EQ(summary.at("error"), error.what());
}

INSTANTIATE_TEST_SUITE_P(
    Each, TaskOfTheUser,
    testing::Values(
        BadTask{"NoScalar",
                [](EvaluationTerms& terms, const Batch& b, bool) {
                  terms.loss.sum = terms.loss.sum.expand({b.samples});
                },
                {"Task::loss", "sizes [", "scalar"}},
        BadTask{"NoGraph",
                [](EvaluationTerms& terms, const Batch&, bool) { terms.loss.sum = terms.loss.sum.detach(); },
                {"Task::loss", "depends on no parameter"}},
        BadTask{
            "Undefined",
            [](EvaluationTerms& terms, const Batch&, bool) { terms.loss.weight = torch::Tensor(); },
            {"Task::evaluate", "weight is undefined"}},  // a sample is evaluated before any is learned from
        BadTask{"Integer",
                [](EvaluationTerms& terms, const Batch&, bool evaluation) {
                  if (evaluation) terms.loss.sum = terms.loss.sum.to(torch::kInt64);
                },
                {"Task::evaluate", "long"}},
        BadTask{"WeightWithGradient",
                [](EvaluationTerms& terms, const Batch&, bool) { terms.loss.weight = terms.loss.sum + 1; },
                {"Task::loss", "weight has a gradient"}},
        BadTask{"NoMetric",
                [](EvaluationTerms& terms, const Batch&, bool) { terms.metrics = {Measured{}}; },
                {"Task::evaluate", "no metric"}},
        BadTask{"SumsOfOtherShapes",
                [](EvaluationTerms& terms, const Batch& b, bool) {
                  terms.metrics = {mean_figure("own", {}, terms.loss.sum, terms.loss.weight)};
                  terms.metrics[0].state.sums[0] = torch::ones({b.samples});
                },
                {"Task::evaluate", "a sum of [", "one shape"}},
        BadTask{"AFigureNamedAsAColumn",
                [](EvaluationTerms& terms, const Batch&, bool) {
                  terms.metrics = {
                      mean_figure("epoch", {}, terms.loss.sum.detach(), terms.loss.weight.detach())};
                },
                {"Task::evaluate", "\"epoch\"", "another name"}},
        BadTask{"Throws",
                [](EvaluationTerms&, const Batch&, bool) { throw std::runtime_error("my own trouble"); },
                {"Task::evaluate", "my own trouble", "inputs of [", "code of your own"}},
        BadTask{"ThrowsInEvaluation",
                [](EvaluationTerms&, const Batch&, bool evaluation) {
                  if (evaluation) throw std::runtime_error("my own trouble");
                },
                {"Task::evaluate", "my own trouble"}}),
    [](const auto& instance) { return std::string(instance.param.name); });

// ------------------------------------------------------------------ data sets

class BadData final : public Dataset {
 public:
  enum class Fault { kNone, kSamples, kInputs, kTargets, kMore, kUndefined, kThrows, kCosts, kEmpty };
  explicit BadData(Fault fault) : fault_(fault) {}

  int64_t size() const override { return fault_ == Fault::kEmpty ? 0 : data_.size(); }
  Batch get(c10::ArrayRef<int64_t> indices, const SampleRandom& random) const override {
    if (fault_ == Fault::kThrows) throw std::out_of_range("beyond my file");
    Batch batch = data_.get(indices, random);
    if (fault_ == Fault::kSamples) ++batch.samples;
    if (fault_ == Fault::kInputs) batch.inputs = batch.inputs.repeat({2, 1});
    if (fault_ == Fault::kTargets) batch.targets = torch::zeros({}, torch::kInt64);
    if (fault_ == Fault::kMore) batch.more_inputs = {batch.inputs};
    if (fault_ == Fault::kUndefined) batch.more_inputs = {{}};
    return batch;
  }
  std::optional<int64_t> cost(int64_t index) const override {
    if (fault_ != Fault::kCosts || index == 17) return std::nullopt;
    return 3;
  }

 private:
  TensorDataset data_ = test::small_data(200);
  Fault fault_;
};

struct DataCase {
  const char* name;
  BadData::Fault fault;
  std::vector<std::string> said;
};

class DataOfTheUser : public testing::TestWithParam<DataCase> {};

TEST_P(DataOfTheUser, IsToldWhatItBreaks) {
  const TemporaryFolder folder;
  const BadData data(GetParam().fault);
  const Error error = test::expect_error(ExitCode::kBrokenContract, [&] {
    Trainer(short_run(), test::small_task(), data, {.output = folder / "run"}).fit();
  });
  for (const std::string& part : GetParam().said) EXPECT_TRUE(test::holds(error.what(), part));
}

using Fault = BadData::Fault;
INSTANTIATE_TEST_SUITE_P(
    Each, DataOfTheUser,
    testing::Values(DataCase{"OfAnotherSize", Fault::kSamples, {"Dataset::get", "a batch of", "for sample"}},
                    DataCase{
                        "MoreInputs", Fault::kInputs, {"Dataset::get", "inputs of [", "first dimension"}},
                    DataCase{"NoRowOfTargets", Fault::kTargets, {"Dataset::get", "targets of []"}},
                    DataCase{"Untold", Fault::kMore, {"Dataset::get", "gives 2 inputs", "info() names 1"}},
                    DataCase{"Undefined", Fault::kUndefined, {"Dataset::get", "undefined", "more_inputs"}},
                    DataCase{"Throws", Fault::kThrows, {"Dataset::get", "beyond my file", "for sample"}},
                    DataCase{"SomeCosts", Fault::kCosts, {"Dataset::cost", "sample 17", "or none"}},
                    DataCase{"Empty", Fault::kEmpty, {"Dataset::size", "at least one"}}),
    [](const auto& instance) { return std::string(instance.param.name); });

// ------------------------------------------------------------------ callbacks

TEST(CallbackOfTheUser, ThatThrowsEndsTheRunWithItsStateSaved) {
  const TemporaryFolder folder;
  test::SmallRun run(short_run(), {.output = folder / "run"});
  run.trainer.on_update([](const UpdateRecord& record) {
    if (record.update == 3) throw std::runtime_error("my own trouble");
    return Flow::kContinue;
  });
  const Error error = test::expect_error(ExitCode::kBrokenContract, [&] { run.trainer.fit(); });
  EXPECT_TRUE(test::holds(error.what(), "my own trouble"));
  EXPECT_TRUE(test::holds(error.what(), "update 3 is saved in"));
  EXPECT_EQ(test::read_json(folder / "run" / "summary.json").at("status"), "failed");
  EXPECT_EQ(test::fit(short_run(), folder / "run", /*resume=*/true).updates, 4);
  test::fit(short_run(), folder / "straight");
  EXPECT_EQ(test::model_digest(folder / "run", 4), test::model_digest(folder / "straight", 4));
}

TEST(CallbackOfTheUser, AnObserverThatThrowsDoesLikewise) {
  struct Thrower final : RunObserver {
    void on_event(const EventRecord&) override { throw std::runtime_error("my own trouble"); }
    void on_evaluation(const EvaluationRecord&) override { throw std::runtime_error("my own trouble"); }
  } thrower;
  const TemporaryFolder folder;
  test::SmallRun run(short_run(), {.output = folder / "run", .observer = &thrower});
  const Error error = test::expect_error(ExitCode::kBrokenContract, [&] { run.trainer.fit(); });
  EXPECT_TRUE(test::holds(error.what(), "RunObserver::on_evaluation: threw: my own trouble"));
  EXPECT_TRUE(test::holds(error.what(), "is saved in"));
}

// Its evaluation was owed until everyone knew of it: the resume makes it again, and counts it once.
TEST(CallbackOfTheUser, AnEvaluationThatItFailedAtIsMadeAgainAndCountedOnce) {
  const TemporaryFolder folder;
  Recipe r = short_run();
  r.evaluation.every = *Interval::parse("1 update");
  {
    test::SmallRun run(r, {.output = folder / "run"});
    run.trainer.on_evaluation([](const EvaluationRecord& record) -> Flow {
      if (record.update == 2) throw std::runtime_error("my own trouble");
      return Flow::kContinue;
    });
    test::expect_error(ExitCode::kBrokenContract, [&] { run.trainer.fit(); });
  }
  const Summary resumed = test::fit(r, folder / "run", /*resume=*/true);
  const Summary straight = test::fit(r, folder / "straight");
  EXPECT_EQ(resumed.best, straight.best);
  const auto since_best = [&](const char* run) {
    return test::read_json(folder / run / "checkpoints" / "update-4" / "state.json")
        .at("run")
        .at("evaluations_since_best")
        .get<int64_t>();
  };
  EXPECT_EQ(since_best("run"), since_best("straight"));
  EXPECT_EQ(read_history(folder / "run" / "metrics.jsonl").evaluations.size(), 4u);
}

TEST(CallbackOfTheUser, AnErrorOfOursPassesAsItIs) {
  const TemporaryFolder folder;
  test::SmallRun run(short_run(), {.output = folder / "run"});
  run.trainer.on_update([](const UpdateRecord&) -> Flow { throw Error(ExitCode::kBadData, "x", "y"); });
  test::expect_error(ExitCode::kBadData, [&] { run.trainer.fit(); });
}

// ------------------------------------------------------------------ figures of a user's own

// Evaluations measure "nll" and "r": the values are those of `values`, one an evaluation.
Summary fit_measured(const fs::path& folder, FigureKind kind, std::vector<double> values,
                     std::optional<int64_t> patience) {
  Recipe r = short_run();
  r.stop.updates = static_cast<int64_t>(values.size());
  r.stop.patience = patience;
  r.evaluation.every = *Interval::parse("1 update");
  r.evaluation.monitor = "nll";
  const auto now = std::make_shared<int64_t>(0);  // updates done
  const auto train = test::small_data(1000), validation = test::small_data(20, 8);
  Trainer trainer(r, std::make_unique<Altered>([=](EvaluationTerms& terms, const Batch&, bool evaluation) {
                    if (!evaluation) return;
                    const double value = values.at(static_cast<size_t>(std::max<int64_t>(1, *now) - 1));
                    terms.metrics = {mean_figure("nll", kind, torch::tensor(value), torch::ones({}))};
                  }),
                  train, validation, {.output = folder});
  trainer.on_update([now](const UpdateRecord& record) {
    *now = record.update;
    return Flow::kContinue;
  });
  return trainer.fit();
}

TEST(FigureOfTheUser, TheBestIsTheLeastWhereLessIsBetter) {
  const TemporaryFolder folder;
  const Summary least = fit_measured(folder / "least", {.better = Better::kLower}, {3, 1, 2, 4}, {});
  EXPECT_EQ(least.best.at("update"), 2);
  const Summary most = fit_measured(folder / "most", {.better = Better::kHigher}, {3, 1, 2, 4}, {});
  EXPECT_EQ(most.best.at("update"), 4);
  EXPECT_EQ(least.figure_kinds.at("nll").better, Better::kLower);
  EXPECT_EQ(test::read_json(folder / "least" / "summary.json").at("figure_kinds").at("nll").at("better"),
            "lower");
}

TEST(FigureOfTheUser, PatienceWaitsForTheRightDirection) {
  const TemporaryFolder folder;
  const Summary falling = fit_measured(folder / "falling", {.better = Better::kLower}, {5, 4, 3, 2, 1}, 2);
  EXPECT_EQ(falling.updates, 5);
  const Summary rising = fit_measured(folder / "rising", {.better = Better::kLower}, {1, 2, 3, 4, 5}, 2);
  EXPECT_EQ(rising.stopped_by, StopReason::kPatience);
  EXPECT_EQ(rising.updates, 3);
}

}  // namespace
}  // namespace autotrain
