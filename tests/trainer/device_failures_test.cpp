// What a device may do to a run, injected on a CPU.
#include <ATen/Context.h>
#include <c10/util/Exception.h>

#include <cstdio>
#include <cstdlib>

#include "base/child.h"
#include "device/device_error.h"
#include "support/small_run.h"
#include "verify/run_difference.h"

namespace autotrain {
namespace {

using test::expect_error;
using test::holds;
using test::kTrialCalls;
using test::read_json;
using test::SmallNet;
using test::TemporaryFolder;
namespace fs = std::filesystem;

// One piece an update, a checkpoint every second one.
Recipe one_piece_recipe() {
  Recipe r = test::typed_recipe();
  r.execution.micro_batch = 100;
  r.stop = {};
  r.stop.updates = 8;
  r.checkpoint.every = *Interval::parse("2 updates");
  return r;
}

// Cross-entropy that calls `befalls` before it is computed for the n-th time.
std::unique_ptr<Task> task_with(int64_t n, const std::function<void()>& befalls) {
  Loss loss = cross_entropy();
  loss.terms = [=, terms = loss.terms, calls = int64_t{0}](const torch::Tensor& prediction,
                                                           const torch::Tensor& target) mutable {
    if (++calls == n) befalls();
    return terms(prediction, target);
  };
  torch::manual_seed(1);
  return supervised(std::make_shared<SmallNet>(SmallNet::Middle::kDropout, 6, test::kWide), std::move(loss));
}

void fit_task(const Recipe& recipe, const fs::path& folder, std::unique_ptr<Task> task, bool resume = false) {
  const TensorDataset data = test::small_data(1000);
  Trainer(recipe, std::move(task), data, {.output = folder, .resume = resume}).fit();
}

[[noreturn]] void lose_device() {
  throw c10::AcceleratorError({__func__, __FILE__, 1}, 719, "CUDA error: unspecified launch failure");
}

constexpr int64_t kSixthUpdate = kTrialCalls + 6;

TEST(LostDevice, EndsTheRunWithTheLastCheckpointNamedAndNothingRescued) {
  const TemporaryFolder folder;
  fit_task(one_piece_recipe(), folder / "straight", task_with(0, [] {}));
  const fs::path run = folder / "run";
  const Error error = expect_error(ExitCode::kDeviceLost, [&] {
    fit_task(one_piece_recipe(), run, task_with(kSixthUpdate, lose_device));
  });
  EXPECT_TRUE(holds(error.what(), "unspecified launch failure"));
  EXPECT_TRUE(holds(error.what(), "update 4 is the last one that is saved"));
  EXPECT_TRUE(holds(error.what(), (run / "checkpoints" / "update-4").string()));
  EXPECT_TRUE(holds(error.hint(), "--output " + run.string() + " --resume"));
  EXPECT_FALSE(fs::exists(run / "checkpoints" / "update-5")) << "the device cannot be asked for it";
  const auto summary = read_json(run / "summary.json");
  EXPECT_EQ(summary.at("status"), "failed");
  EXPECT_EQ(summary.at("exit_code"), 72);
  EXPECT_EQ(summary.at("oom_recoveries"), 0);
  EXPECT_TRUE(holds(summary.at("error"), "update 4 is the last one"));

  fit_task(one_piece_recipe(), run, task_with(0, [] {}), /*resume=*/true);
  EXPECT_EQ(first_difference(run, folder / "straight", 8), "");
}

TEST(LostDevice, BeforeAnyCheckpointItSaysSo) {
  const TemporaryFolder folder;
  const Error error = expect_error(ExitCode::kDeviceLost, [&] {
    fit_task(one_piece_recipe(), folder / "run", task_with(kTrialCalls + 1, lose_device));
  });
  EXPECT_TRUE(holds(error.what(), "there is no checkpoint yet"));
}

TEST(LostDevice, InATrialItIsNoSizeThatDoesNotFit) {
  const TemporaryFolder folder;
  Recipe searched = one_piece_recipe();
  searched.execution.micro_batch.reset();
  for (const Recipe& recipe : {one_piece_recipe(), searched}) {
    expect_error(ExitCode::kDeviceLost, [&] { fit_task(recipe, folder / "run", task_with(1, lose_device)); });
    fs::remove_all(folder / "run");
  }
}

// The thread that trains meets it in a destructor, as of memory that another stream has used.
TEST(LostDevice, MetByADestructorItEndsTheSameWay) {
  struct Freed {
    ~Freed() { lose_device(); }
  };
  const TemporaryFolder folder;
  Child child(
      [&] {
        const LostDeviceScope lost([](const DeviceLost& error) -> DeviceLost {
          std::fprintf(stderr, "%s\n", error.what());
          std::_Exit(72);
        });
        fit_task(one_piece_recipe(), folder / "run", task_with(kSixthUpdate, [] { const Freed memory; }));
        return 0;
      },
      folder / "log");
  EXPECT_EQ(child.wait(), 72);
  EXPECT_TRUE(holds(test::slurp(folder / "log"), "update 4 is the last one that is saved"));
  EXPECT_EQ(read_json(folder / "run" / "summary.json").at("exit_code"), 72);
  EXPECT_FALSE(fs::exists(folder / "run" / "checkpoints" / "update-5"));
}

// ------------------------------------------------------------------ operators that do not repeat

// Writes with `put_`, which has no deterministic kernel on any device.
struct PuttingNet : torch::nn::Module {
  PuttingNet() { linear = register_module("linear", torch::nn::Linear(6, 4)); }
  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor y = linear->forward(x);
    return y.put(torch::zeros({1}, torch::dtype(torch::kInt64).device(y.device())),
                 torch::zeros({1}, y.options()));
  }
  torch::nn::Linear linear{nullptr};
};

Summary fit_putting(std::optional<bool> deterministic, bool searched = false) {
  Recipe r = one_piece_recipe();
  r.stop.updates = 2;
  r.execution.deterministic = deterministic;
  if (searched) r.execution.micro_batch.reset();
  torch::manual_seed(1);
  const TensorDataset data = test::small_data(1000);
  Trainer trainer(r, supervised(std::make_shared<PuttingNet>(), cross_entropy()), data,
                  {.write_files = false});
  trainer.on_update([&](const UpdateRecord&) {
    const bool asks = deterministic.value_or(true);
    EXPECT_EQ(at::globalContext().deterministicAlgorithms(), asks);
    const bool warns = at::globalContext().deterministicAlgorithmsWarnOnly();
    EXPECT_TRUE(!asks || warns == !deterministic.has_value());
    return Flow::kContinue;
  });
  return trainer.fit();
}

TEST(Determinism, WhereItIsAskedForAnOperatorWithoutItEndsTheRunByName) {
  for (const bool searched : {false, true}) {
    const Error error = expect_error(ExitCode::kBadRecipe, [&] { fit_putting(true, searched); });
    EXPECT_EQ(error.where(), "execution.deterministic");
    EXPECT_TRUE(holds(error.problem(), "the operator put_ has no deterministic implementation"));
    EXPECT_TRUE(holds(error.hint(), "execution.deterministic: false"));
  }
}

TEST(Determinism, WhereItIsOnlyTheDefaultItRunsAndALaterRunIsNotHeldToAnEarlierOnes) {
  EXPECT_EQ(fit_putting(std::nullopt).updates, 2);
  expect_error(ExitCode::kBadRecipe, [] { fit_putting(true); });
  EXPECT_EQ(fit_putting(false).updates, 2);
  EXPECT_EQ(fit_putting(std::nullopt).updates, 2);
}

}  // namespace
}  // namespace autotrain
