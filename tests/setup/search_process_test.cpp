#include "setup/search_process.h"

#include <signal.h>
#include <unistd.h>

#include <cstdlib>

#include "autotrain/log.h"
#include "base/child.h"
#include "base/interrupt.h"
#include "device/caching_allocator.h"
#include "support/small_run.h"

// No test here may compute with LibTorch outside another process.
namespace autotrain {
namespace {

using Known = std::vector<ProbeRecord>;

ProbeRecord fitted(int64_t micro_batch) {
  return {
      .micro_batch = micro_batch, .peak_bytes = 1000 * micro_batch, .fill = 0.1 + 1e-17, .seconds = 1.0 / 3};
}

BatchPlan plan_of(const Known& probes) {
  BatchPlan plan;
  plan.micro_batch = probes.back().micro_batch;
  plan.loss_factor = 0x1p-9;
  plan.search.probes = probes;
  return plan;
}

// Notes what the observer of the process that waits was told.
class Told final : public RunObserver {
 public:
  void on_trial(int64_t micro_batch) override { started.push_back(micro_batch); }
  void on_probe(const ProbeRecord& probe) override { ended.push_back(probe); }
  std::vector<int64_t> started;
  Known ended;
};

TEST(SearchProcess, APlanAndItsTrialsArriveAsTheyAreInAnotherProcess) {
  Told told;
  const pid_t here = ::getpid();
  const BatchPlan plan = plan_in_own_process(
      [&](const Known& known, RunObserver& observer) {
        EXPECT_TRUE(known.empty());
        EXPECT_NE(::getpid(), here);
        observer.on_trial(16);
        observer.on_probe(fitted(16));
        return plan_of({fitted(16)});
      },
      told);
  EXPECT_EQ(plan.micro_batch, 16);
  EXPECT_EQ(plan.loss_factor, 0x1p-9);
  EXPECT_EQ(told.started, std::vector<int64_t>{16});
  ASSERT_EQ(told.ended.size(), 1u);
  EXPECT_EQ(told.ended[0].fill, fitted(16).fill);
  EXPECT_EQ(told.ended[0].seconds, fitted(16).seconds);
}

TEST(SearchProcess, ATrialThatEndsItsProcessIsAnOutcomeAndTheSearchGoesOnFromThere) {
  Told told;
  const BatchPlan plan = plan_in_own_process(
      [&](Known known, RunObserver& observer) {
        if (known.empty()) {
          observer.on_trial(16);
          observer.on_probe(fitted(16));
          observer.on_trial(256);
          ::signal(SIGSEGV, SIG_DFL);
          ::raise(SIGSEGV);
        }
        if (known.size() == 2) {
          observer.on_trial(64);
          std::_Exit(1);  // as OpenMP does when it gets no thread
        }
        return plan_of(known);
      },
      told);
  ASSERT_EQ(plan.search.probes.size(), 3u);
  EXPECT_EQ(plan.search.probes[0].micro_batch, 16);
  EXPECT_TRUE(plan.search.probes[0].fits());
  for (const size_t i : {1, 2}) {
    EXPECT_EQ(plan.search.probes[i].outcome, ProbeOutcome::kCrashed);
    EXPECT_EQ(plan.search.probes[i].peak_bytes, 0);
  }
  EXPECT_EQ(plan.search.probes[1].micro_batch, 256);
  EXPECT_EQ(plan.search.probes[2].micro_batch, 64);
  EXPECT_EQ(told.ended.size(), 3u);
}

TEST(SearchProcess, ErrorsAreThoseOfThisProcess) {
  RunObserver nobody;
  const auto too_large = [](const Known&, RunObserver&) -> BatchPlan {
    throw Error(ExitCode::kDoesNotFit, "execution.micro_batch", "512 does not fit", "take 100");
  };
  const Error error =
      test::expect_error(ExitCode::kDoesNotFit, [&] { plan_in_own_process(too_large, nobody); });
  EXPECT_EQ(error.where(), "execution.micro_batch");
  EXPECT_EQ(error.problem(), "512 does not fit");
  EXPECT_EQ(error.hint(), "take 100");
  const auto bug = [](const Known&, RunObserver&) -> BatchPlan {
    throw std::logic_error("broken invariant");
  };
  EXPECT_THROW(plan_in_own_process(bug, nobody), std::runtime_error);
}

TEST(SearchProcess, AProcessThatEndsOutsideATrialIsAnErrorAndNotTriedAgain) {
  RunObserver nobody;
  try {
    plan_in_own_process([](const Known&, RunObserver&) -> BatchPlan { std::_Exit(3); }, nobody);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_TRUE(test::holds(error.problem(), "ended with code 3"));
  }
}

TEST(SearchProcess, LogLinesComeOutOfThisProcess) {
  std::vector<std::string> lines;
  log::set_sink([&](const log::Record& record) { lines.push_back(std::string(record.text)); });
  RunObserver nobody;
  plan_in_own_process(
      [](const Known&, RunObserver&) {
        log::debug("plan", "too fine");
        log::info("plan", "one \"quoted\"\nline");
        return plan_of({fitted(1)});
      },
      nobody);
  log::set_sink(log::terminal_sink(), log::Level::kWarning);
  EXPECT_EQ(lines, std::vector<std::string>{"one \"quoted\"\nline"});
}

// Searches while a signal asks this process to stop.
void expect_interrupted(const MakePlan& make) {
  RunObserver nobody;
  install_signal_handlers();
  request_interrupt(Interrupt::kStop);
  test::expect_error(ExitCode::kInterrupted, [&] { plan_in_own_process(make, nobody); });
  clear_interrupt();
}

TEST(SearchProcess, ASignalStopsTheSearchAndNothingElse) {
  expect_interrupted([](const Known&, RunObserver&) -> BatchPlan {
    clear_interrupt();  // what was copied; the signal itself is to arrive
    for (;;) {
      stop_if_interrupted("plan", "stopped");
      ::usleep(1000);
    }
  });
}

TEST(SearchProcess, OneThatDoesNotHeedTheSignalIsKilled) {
  expect_interrupted([](const Known&, RunObserver&) -> BatchPlan {
    for (;;) ::pause();  // as a library does that waits for a thread that could not be started
  });
}

TEST(SearchProcess, MemoryRefusedBesideTensorsDoesNotFit) {
  RunObserver nobody;
  const auto refused = [](const Known&, RunObserver&) -> BatchPlan { throw std::bad_alloc(); };
  test::expect_error(ExitCode::kDoesNotFit, [&] { plan_in_own_process(refused, nobody); });
}

// A run in a process of its own, whose search is apart once more.
int run_apart(const Recipe& recipe, const std::filesystem::path& folder, bool apart) {
  Trainer trainer = Trainer::from_recipe(recipe, {.output = folder, .search_apart = apart});
  return trainer.fit().exit_code;
}

Recipe small_images() {
  Recipe recipe;
  recipe.data.train = {"synthetic", {{"kind", std::string("images")}, {"samples", int64_t{4096}}}};
  recipe.data.validation = recipe.data.train;
  recipe.data.validation->parameters["samples"] = int64_t{500};
  recipe.batch.effective = 2000;
  recipe.optimizer.lr = 1e-3;
  recipe.stop = {};
  recipe.stop.updates = 3;
  recipe.execution.precision = Precision::kFp32;
  recipe.execution.memory.budget = *Budget::parse("64MiB");
  recipe.execution.search.plan_cache = false;
  return recipe;
}

TEST(SearchProcess, ALibraryThatDiesInATrialCostsThatTrialAndNotTheRun) {
  const test::TemporaryFolder folder;
  const auto run = [&] {
    // Kills whichever process allocates so much at once: trials of more than some 40 samples.
    CachingAllocator::process_wide().set_fault([](int64_t bytes, MemoryPhase) {
      if (bytes > int64_t{4} << 20) ::kill(::getpid(), SIGKILL);
      return false;
    });
    return run_apart(small_images(), folder / "run", /*apart=*/true);
  };
  ASSERT_EQ(Child(run, folder / "log").wait(), 0) << test::slurp(folder / "log");
  const auto plan = test::read_json(folder / "run" / "plan.json");
  int64_t crashed = 0;
  for (const auto& probe : plan.at("search").at("probes")) crashed += probe.at("outcome") == "crashed";
  EXPECT_GT(crashed, 0);
  EXPECT_TRUE(plan.at("confirmed"));
  EXPECT_EQ(test::read_json(folder / "run" / "summary.json").at("oom_recoveries"), 0);
}

TEST(SearchProcess, ARunWhoseSizeWasSearchedHasThePeakAndTheBytesOfTheOneWhoseSizeWasTyped) {
  const test::TemporaryFolder folder;
  Recipe recipe = small_images();
  const auto run = [&](const char* name) {
    EXPECT_EQ(Child([&] { return run_apart(recipe, folder / name, true); }, folder / "log").wait(), 0)
        << test::slurp(folder / "log");
    return test::read_json(folder / name / "summary.json").at("peak_bytes").get<double>();
  };
  const double searched = run("searched");
  const auto plan = test::read_json(folder / "searched" / "plan.json");
  recipe.execution.micro_batch = plan.at("micro_batch").get<int64_t>();
  recipe.evaluation.micro_batch = plan.at("evaluation_micro_batch").get<int64_t>();
  const double typed = run("typed");
  EXPECT_EQ(test::model_digest(folder / "searched", 3), test::model_digest(folder / "typed", 3));
  EXPECT_NEAR(searched / typed, 1, 0.02);
  EXPECT_GT(plan.at("search").at("probes").size(), 1u);
}

}  // namespace
}  // namespace autotrain
