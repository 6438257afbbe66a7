// Whole runs of several ranks, each a process.
#include <signal.h>
#include <unistd.h>

#include <ATen/Parallel.h>

#include <cstdlib>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "autotrain/log.h"
#include "autotrain/rank_group.h"
#include "base/child.h"
#include "base/interrupt.h"
#include "base/text.h"
#include "comm/meeting_place.h"
#include "device/caching_allocator.h"
#include "support/small_run.h"

namespace autotrain {
namespace {

using test::model_digest;
using test::read_json;
using test::SmallNet;
using test::SmallRun;
using test::TemporaryFolder;
namespace fs = std::filesystem;

constexpr int64_t kUpdates = 12;

// Lanes of 25 or 26 samples in pieces of 9, an evaluation and checkpoints in the middle.
Recipe lanes_recipe() {
  Recipe r = test::recipe();
  r.batch.effective = 101;
  r.stop = {};
  r.stop.updates = kUpdates;
  r.execution.lanes = 4;
  r.execution.micro_batch = 9;
  r.execution.threads = 1;
  r.execution.memory.budget = *Budget::parse("64MiB");
  r.evaluation.every = *Interval::parse("5 updates");
  r.checkpoint.every = *Interval::parse("4 updates");
  return r;
}

using Work = std::function<int(int64_t rank)>;

// What each of `world` ranks ended with. Every one is a process that finds the others as under torchrun.
std::vector<int> as_ranks(int64_t world, const TemporaryFolder& folder, const Work& work) {
  MeetingPlace meeting;
  const auto log_of = [&](int64_t rank) { return folder / ("log-" + std::to_string(rank)); };
  std::vector<int> codes;
  for (const auto& rank : meeting.start_ranks(world, work, log_of)) codes.push_back(rank->wait());
  return codes;
}

int code_of(const Summary& summary) {
  return summary.exit_code;
}

// The folder of a run of so many ranks.
fs::path run_by(int64_t world, const TemporaryFolder& folder, const std::string& name, const Recipe& recipe,
                SmallNet::Middle middle = SmallNet::Middle::kDropout) {
  const std::vector<int> codes = as_ranks(world, folder, [&](int64_t) {
    return code_of(SmallRun(recipe, {.output = folder / name}, middle).trainer.fit());
  });
  for (size_t rank = 0; rank < codes.size(); ++rank)
    EXPECT_EQ(codes[rank], 0) << name << ": rank " << rank << ": "
                              << test::slurp(folder / ("log-" + std::to_string(rank)));
  return folder / name;
}

// Keeps what its samples are, or how often it was asked.
struct Keeping final : Task {
  explicit Keeping(bool keeps_samples) : samples(keeps_samples) {}
  torch::nn::Module& module() override { return inner->module(); }
  LossTerms loss(const Batch& batch) override {
    kept.copy_(samples ? batch.inputs.sum() : kept + 1);
    return inner->loss(batch);
  }
  void after_step(const UpdateInfo& info) override {
    if (fails_after == info.update) throw std::runtime_error("no more of this");
  }
  std::vector<NamedTensor> state() override { return {{"kept", kept}}; }

  const bool samples;
  int64_t fails_after = -1;
  std::unique_ptr<Task> inner = test::small_task();
  torch::Tensor kept = torch::zeros({});
};

TEST(RanksOfARun, StateThatEachFillsFromItsOwnSamplesIsToldByTheFirst) {
  for (const bool keeps_samples : {false, true}) {
    const TemporaryFolder folder;
    Recipe r = lanes_recipe();
    r.batch.effective = 80;  // as many micro-batches on each rank
    r.execution.micro_batch = 10;
    const std::vector<int> codes = as_ranks(2, folder, [&](int64_t) {
      int told = 0;
      log::set_sink(
          [&](const log::Record& record) {
            told += record.text.find("kept is not the same") != std::string::npos ? 1 : 0;
          },
          log::Level::kWarning);
      const TensorDataset data = test::small_data(1000);
      Trainer(r, std::make_unique<Keeping>(keeps_samples), data, {.write_files = false}).fit();
      return told;
    });
    EXPECT_EQ(codes, (std::vector<int>{keeps_samples ? 1 : 0, 0}));
  }
}

TEST(RanksOfARun, AnyNumberOfRanksThatSharesTheLanesComesToTheSameBits) {
  const TemporaryFolder folder;
  const fs::path alone = run_by(1, folder, "one", lanes_recipe());
  for (const int64_t world : {2, 4}) {
    const fs::path run = run_by(world, folder, std::to_string(world), lanes_recipe());
    EXPECT_EQ(model_digest(run, kUpdates), model_digest(alone, kUpdates)) << world;
    for (const char* figure : {"loss", "grad_norm", "samples"})
      EXPECT_EQ(test::column(run, figure), test::column(alone, figure)) << world << ' ' << figure;
    EXPECT_EQ(test::noise_rows(run), test::noise_rows(alone)) << world;
    const nlohmann::ordered_json summary = read_json(run / "summary.json");
    EXPECT_EQ(summary.at("final"), read_json(alone / "summary.json").at("final"));
    int64_t slowest = 0;
    for (const auto& rank : summary.at("ranks")) slowest += rank.at("slowest").get<int64_t>();
    EXPECT_EQ(slowest, kUpdates) << "of every update one rank is the slowest";
    EXPECT_EQ(static_cast<int64_t>(summary.at("ranks").size()), world);
  }
  Recipe one_lane = lanes_recipe();
  one_lane.execution.lanes.reset();
  EXPECT_NE(model_digest(run_by(1, folder, "plain", one_lane), kUpdates), model_digest(alone, kUpdates))
      << "lanes are another order of adding";
}

// A rank of those that share out the optimizer would need the second moment of all the others.
TEST(RanksOfARun, NoiseInTheOptimizersMetricIsTheSameOnAnyNumberOfThem) {
  const TemporaryFolder folder;
  Recipe r = lanes_recipe();
  r.execution.lanes = 2;
  r.stop.updates = 33;
  const auto noise = [&](int64_t world) {
    const std::string name = cat(world, r.execution.shard == Sharding::kNone ? "-whole" : "-shared-out");
    return test::noise_rows(run_by(world, folder, name, r), "preconditioned_noise");
  };
  const auto alone = noise(1);
  for (size_t i = 0; i < alone.size(); ++i) EXPECT_EQ(alone[i].is_null(), i != 15 && i != 31) << i;
  EXPECT_EQ(noise(2), alone);
  r.execution.shard = Sharding::kOptimizer;
  for (const int64_t world : {1, 2}) {
    for (const auto& row : noise(world)) EXPECT_TRUE(row.is_null()) << world;
  }
}

// A gloo group that the program made for itself, at the store that it was launched with.
std::shared_ptr<const RankGroup> group_of_the_caller(int64_t rank, int64_t world) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(std::stoi(std::getenv("MASTER_PORT")));
  options.waitWorkers = false;
  const c10::intrusive_ptr<c10d::Store> store = c10::make_intrusive<c10d::PrefixStore>(
      "theirs", c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options));
  auto with = c10d::ProcessGroupGloo::Options::create();
  with->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  return std::make_shared<const RankGroup>(c10::make_intrusive<c10d::ProcessGroupGloo>(
                                               store, static_cast<int>(rank), static_cast<int>(world), with),
                                           store);
}

TEST(RanksOfARun, OverAGroupOfTheCallersOwnTheyComeToTheSameBits) {
  const TemporaryFolder folder;
  const fs::path launched = run_by(2, folder, "launched", lanes_recipe());
  const std::vector<int> codes = as_ranks(2, folder, [&](int64_t rank) {
    const auto group = group_of_the_caller(rank, 2);
    // Whoever hands over a group needs no launcher.
    for (const char* const name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}) ::unsetenv(name);
    for (const char* const name : {"first", "second"}) {
      const Summary summary =
          SmallRun(lanes_recipe(), {.output = folder / name, .group = group}).trainer.fit();
      if (summary.exit_code != 0 || summary.ranks.size() != 2) return 1;
    }
    return 0;
  });
  EXPECT_EQ(codes, (std::vector{0, 0})) << test::slurp(folder / "log-0") << test::slurp(folder / "log-1");
  for (const char* const name : {"first", "second"}) {
    EXPECT_EQ(model_digest(folder / name, kUpdates), model_digest(launched, kUpdates)) << name;
    EXPECT_EQ(test::timeless_rows(folder / name), test::timeless_rows(launched)) << name;
  }
}

TEST(RanksOfARun, WhatTheyFindTogetherIsWhatOneWouldHaveTyped) {
  const TemporaryFolder folder;
  Recipe searched = lanes_recipe();
  searched.execution.lanes.reset();
  searched.execution.micro_batch.reset();
  // Libraries take little beside it: with AMX they took more than a budget of 6 MiB had.
  searched.batch.effective = 601;
  searched.execution.memory.budget = *Budget::parse("24MiB");
  const fs::path found = run_by(2, folder, "found", searched);
  const nlohmann::ordered_json plan = read_json(found / "plan.json");
  EXPECT_EQ(plan.at("world_size"), 2);
  EXPECT_EQ(plan.at("lanes"), 2);
  EXPECT_GT(plan.at("window").get<int64_t>(), 1);
  searched.execution.micro_batch = plan.at("micro_batch").get<int64_t>();
  EXPECT_EQ(model_digest(run_by(2, folder, "typed", searched), kUpdates), model_digest(found, kUpdates));
}

// One run in whose windows one allocation after the other is refused to one rank: each has some hundred.
TEST(RanksOfARun, MemoryThatRunsOutOnOneRankChangesNoBit) {
  const TemporaryFolder folder;
  Recipe r = lanes_recipe();
  r.execution.shard = Sharding::kOptimizer;  // which exchanges more
  r.stop.updates = 260;
  r.evaluation.every = *Interval::parse("90 updates");
  r.checkpoint.every = *Interval::parse("100 updates");
  const fs::path straight = run_by(2, folder, "straight", r);
  for (const int64_t unlucky : {0, 1}) {
    const std::string name = "short-on-" + std::to_string(unlucky);
    const std::vector<int> codes = as_ranks(2, folder, [&](int64_t rank) {
      SmallRun run(r, {.output = folder / name});
      int64_t at = 0, seen = 0;
      if (rank == unlucky) {
        run.trainer.on_update([&](const UpdateRecord& record) {
          // At most one in a window: a second one would shrink the micro-batch, which is another cut.
          if (record.update % 2 == 0) at = record.update / 2, seen = 0;
          return Flow::kContinue;
        });
        CachingAllocator::process_wide().set_fault(
            [&](int64_t, MemoryPhase) { return at > 0 && ++seen == at; });
      }
      const Summary summary = run.trainer.fit();
      CachingAllocator::process_wide().set_fault({});
      return summary.exit_code != 0 ? summary.exit_code : summary.oom_recoveries < 100 ? 1 : 0;
    });
    EXPECT_EQ(codes, (std::vector{0, 0})) << test::slurp(folder / "log-0") << test::slurp(folder / "log-1");
    EXPECT_EQ(model_digest(folder / name, 260), model_digest(straight, 260)) << unlucky;
    EXPECT_EQ(test::column(folder / name, "loss"), test::column(straight, "loss")) << unlucky;
  }
}

// Every rank keeps the optimizer's state of its part only; the checkpoints are those of a rank that has all.
TEST(RanksOfARun, AnOptimizerThatIsSharedOutComesToTheSameFiles) {
  const TemporaryFolder folder;
  for (const char* const algorithm : {"sgd", "adam", "adamw", "nadamw", "lion"}) {
    Recipe r = lanes_recipe();
    r.optimizer.algorithm = {algorithm, {}};
    if (std::string_view(algorithm) == "sgd") r.optimizer.algorithm.parameters["momentum"] = 0.9;
    r.optimizer.weight_decay = 0.1;
    r.optimizer.groups = {{.match = {"*.bias", "second.*"}, .lr_factor = 2, .decay_all = true}};
    r.optimizer.clip_norm = 0.5;
    r.average.half_life = 500;
    r.checkpoint.keep = 10;
    const std::string name = algorithm;
    const fs::path whole = run_by(1, folder, name, r);
    r.execution.shard = Sharding::kOptimizer;
    for (const int64_t world : {2, 4}) {
      const fs::path run = run_by(world, folder, cat(name, "-", world), r);
      for (const int64_t update : {4, 8, 12}) {
        for (const char* file : {"model.safetensors", "optimizer.safetensors", "averaged.safetensors"}) {
          const fs::path path = fs::path("checkpoints") / cat("update-", update) / file;
          EXPECT_TRUE(test::slurp(whole / path) == test::slurp(run / path) && fs::exists(run / path))
              << name << " of " << world << ": " << path;
        }
      }
    }
  }
}

TEST(RanksOfARun, ARateThatFollowsEvaluationsIsTheSameOnAll) {
  const TemporaryFolder folder;
  Recipe r = lanes_recipe();
  r.evaluation.every = *Interval::parse("2 updates");
  r.schedule.shape = {"plateau", {{"factor", 0.5}, {"patience", int64_t{1}}, {"threshold", 100.0}}};
  const fs::path alone = run_by(1, folder, "one", r), both = run_by(2, folder, "two", r);
  EXPECT_EQ(test::column(both, "lr"), test::column(alone, "lr"));
  EXPECT_EQ(test::column(both, "lr").back(), test::column(both, "lr").front() / 16);
  EXPECT_EQ(model_digest(both, kUpdates), model_digest(alone, kUpdates));
}

// Updates of 60, then 131, then 45 samples in two lanes.
Recipe staged_lanes_recipe() {
  Recipe r = lanes_recipe();
  r.batch.effective.reset();
  r.batch.schedule.stages = {{0, 60}, {200, 131}, {600, 45}};
  r.stop = {};
  r.stop.samples = 900;
  r.stop.keep_last = true;
  r.execution.lanes = 2;
  r.schedule.shape = {"linear", {}};
  r.evaluation.every = *Interval::parse("300 samples");
  r.checkpoint.every = *Interval::parse("100 samples");
  return r;
}

TEST(RanksOfARun, ABatchThatChangesComesToTheSameBits) {
  const TemporaryFolder folder;
  const fs::path alone = run_by(1, folder, "one", staged_lanes_recipe());
  const fs::path both = run_by(2, folder, "two", staged_lanes_recipe());
  const std::vector<double> batches = {60, 60, 60, 60, 131, 131, 131, 45, 45, 45, 45, 45, 42};
  EXPECT_EQ(test::column(alone, "effective_batch"), batches);
  EXPECT_EQ(model_digest(both, 13), model_digest(alone, 13));
  for (const char* figure : {"loss", "grad_norm", "samples", "lr", "effective_batch"})
    EXPECT_EQ(test::column(both, figure), test::column(alone, figure)) << figure;
}

TEST(RanksOfARun, KilledAcrossAChangeOfTheBatchTheyGoOnToTheSameBytes) {
  const TemporaryFolder folder;
  const fs::path straight = run_by(1, folder, "straight", staged_lanes_recipe());
  const auto killed_at = [&](int64_t update) {
    as_ranks(1, folder, [&](int64_t) {
      SmallRun run(staged_lanes_recipe(), {.output = folder / "killed", .resume = true});
      run.trainer.on_update([&](const UpdateRecord& record) {
        if (record.update == update) ::raise(SIGKILL);
        return Flow::kContinue;
      });
      return code_of(run.trainer.fit());
    });
  };
  for (const int64_t update : {4, 6, 8, 11}) killed_at(update);
  const std::vector<int> codes = as_ranks(1, folder, [&](int64_t) {
    return code_of(
        SmallRun(staged_lanes_recipe(), {.output = folder / "killed", .resume = true}).trainer.fit());
  });
  EXPECT_EQ(codes, std::vector{0}) << test::slurp(folder / "log-0");
  EXPECT_EQ(model_digest(folder / "killed", 13), model_digest(straight, 13));
  EXPECT_EQ(test::timeless_rows(folder / "killed"), test::timeless_rows(straight));
}

TEST(RanksOfARun, ABatchThatAdaptsIsTheSameOnAll) {
  const TemporaryFolder folder;
  Recipe r = test::adapting_recipe(folder);
  r.execution.lanes = 2;
  for (const int64_t world : {1, 2}) {
    const std::vector<int> codes = as_ranks(world, folder, [&](int64_t) {
      return code_of(Trainer::from_recipe(r, {.output = folder / std::to_string(world)}).fit());
    });
    EXPECT_EQ(codes, std::vector<int>(static_cast<size_t>(world))) << test::slurp(folder / "log-0");
  }
  const fs::path alone = folder / "1", both = folder / "2";
  const std::vector<double> batches = test::column(alone, "effective_batch");
  ASSERT_NE(*std::ranges::max_element(batches), *std::ranges::min_element(batches))
      << "or this tests nothing";
  EXPECT_EQ(test::column(both, "effective_batch"), batches);
  EXPECT_EQ(test::noise_rows(both), test::noise_rows(alone));
  const auto updates = static_cast<int64_t>(batches.size());
  EXPECT_EQ(model_digest(both, updates), model_digest(alone, updates));
}

TEST(RanksOfARun, WhatNeedsWholeTensorsIsNotSharedOut) {
  const TemporaryFolder folder;
  Recipe r = lanes_recipe();
  r.execution.shard = Sharding::kOptimizer;
  for (const char* const algorithm : {"lars", "lamb"}) {
    r.optimizer.algorithm = {algorithm, {}};
    const Error error = test::expect_error(
        ExitCode::kBadRecipe, [&] { SmallRun(r, {.output = folder / algorithm}).trainer.fit(); });
    EXPECT_EQ(error.where(), "execution.shard");
    EXPECT_TRUE(test::holds(error.what(), "norms of whole tensors"));
  }
}

TEST(RanksOfARun, OthersGoOnFromWhereASharedOutOptimizerStopped) {
  const TemporaryFolder folder;
  Recipe r = lanes_recipe();
  r.optimizer.algorithm = {"adamw", {}};
  const fs::path straight = run_by(1, folder, "straight", r);
  const auto shard = [&](Sharding what, int64_t updates) {
    r.execution.shard = what;
    r.stop.updates = updates;
  };
  const auto go_on = [&](int64_t world, const char* name) {
    const std::vector<int> codes = as_ranks(world, folder, [&](int64_t) {
      return code_of(
          SmallRun(r, {.output = folder / name, .resume = true, .allow_change = true}).trainer.fit());
    });
    EXPECT_EQ(codes, std::vector<int>(static_cast<size_t>(world))) << test::slurp(folder / "log-0");
  };
  for (const Sharding first : {Sharding::kOptimizer, Sharding::kNone}) {
    const Sharding then = first == Sharding::kNone ? Sharding::kOptimizer : Sharding::kNone;
    const char* const name = first == Sharding::kNone ? "shared-later" : "shared-first";
    shard(first, 3);
    go_on(2, name);
    shard(then, 7);
    go_on(first == Sharding::kNone ? 2 : 1, name);
    shard(Sharding::kOptimizer, kUpdates);
    go_on(4, name);
    EXPECT_EQ(model_digest(folder / name, kUpdates), model_digest(straight, kUpdates)) << name;
  }
}

TEST(RanksOfARun, AllStopAtOneUpdateWhenOneIsToldTo) {
  const TemporaryFolder folder;
  const fs::path straight = run_by(2, folder, "straight", lanes_recipe());
  for (const bool signal : {true, false}) {
    const std::string name = signal ? "signalled" : "asked";
    const std::vector<int> codes = as_ranks(2, folder, [&](int64_t rank) {
      SmallRun run(lanes_recipe(), {.output = folder / name});
      run.trainer.on_update([&](const UpdateRecord& record) {
        if (rank == 0 || record.update != 6) return Flow::kContinue;
        if (signal) request_interrupt(Interrupt::kStop);
        return signal ? Flow::kContinue : Flow::kStop;
      });
      const Summary summary = run.trainer.fit();
      return summary.updates == 6 || summary.updates == 7 ? summary.exit_code : 1;
    });
    const int code = signal ? static_cast<int>(ExitCode::kInterrupted) : 0;
    EXPECT_EQ(codes, (std::vector{code, code})) << name;
    // With another number of ranks, from that very update on.
    const std::vector<int> resumed = as_ranks(4, folder, [&](int64_t) {
      return code_of(SmallRun(lanes_recipe(), {.output = folder / name, .resume = true}).trainer.fit());
    });
    EXPECT_EQ(resumed, (std::vector{0, 0, 0, 0})) << test::slurp(folder / "log-0");
    EXPECT_EQ(model_digest(folder / name, kUpdates), model_digest(straight, kUpdates)) << name;
  }
}

// One rank has no memory for its smallest micro-batch, twice: all compute again, and come to the same bits.
TEST(RanksOfARun, AllComputeBlocksAgainWhereMemoryRunsOutOnOne) {
  const TemporaryFolder folder;
  const Recipe recipe = load_recipe(folder.write("recipe.yaml", R"(
data:
  train: {dataset: synthetic, kind: vectors, samples: 64, shape: [8], classes: 4}
model: {name: mlp, depth: 5, width: 32}
batch: {effective: 2}
stop: {updates: 4}
execution: {precision: fp32, lanes: 2, micro_batch: 1, threads: 1, recompute: auto, memory: {budget: 64MiB}}
)"));
  const auto run = [&](const std::string& name, int refusals) {
    const std::vector<int> codes = as_ranks(2, folder, [&](int64_t rank) {
      Trainer trainer = Trainer::from_recipe(recipe, {.output = folder / name});
      trainer.on_update([&, armed = rank != 1](const UpdateRecord&) mutable {
        if (std::exchange(armed, true)) return Flow::kContinue;
        CachingAllocator::process_wide().set_fault([left = refusals](int64_t, MemoryPhase phase) mutable {
          return phase == MemoryPhase::kForward && left > 0 && left-- > 0;
        });
        return Flow::kContinue;
      });
      return code_of(trainer.fit());
    });
    for (size_t rank = 0; rank < codes.size(); ++rank)
      EXPECT_EQ(codes[rank], 0) << test::slurp(folder / ("log-" + std::to_string(rank)));
    return folder / name;
  };
  const fs::path straight = run("straight", 0), lacking = run("lacking", 2);
  EXPECT_FALSE(read_json(straight / "plan.json").at("recompute"));
  EXPECT_TRUE(read_json(lacking / "plan.json").at("recompute"));
  EXPECT_EQ(read_json(lacking / "summary.json").at("oom_recoveries"), 2);
  EXPECT_EQ(model_digest(lacking, 4), model_digest(straight, 4));
}

TEST(RanksOfARun, RanksThatComputeSomethingElseAreRefusedByName) {
  const TemporaryFolder folder;
  const auto codes_of = [&](const std::function<void(Recipe&)>& change) {
    return as_ranks(2, folder, [&](int64_t rank) {
      Recipe r = lanes_recipe();
      if (rank == 1) change(r);
      return code_of(SmallRun(r, {.output = folder / "never"}).trainer.fit());
    });
  };
  const int usage = static_cast<int>(ExitCode::kUsage);
  EXPECT_EQ(codes_of([](Recipe& r) { r.optimizer.lr = 0.5; }), (std::vector{usage, usage}));
  EXPECT_TRUE(test::holds(test::slurp(folder / "log-0"), "rank 1 on "));
  EXPECT_TRUE(test::holds(test::slurp(folder / "log-0"), "optimizer.lr is 0.5, and 0.0005 on rank 0"));
  EXPECT_EQ(codes_of([](Recipe& r) { r.execution.threads = 2; }), (std::vector{usage, usage}));
  EXPECT_TRUE(test::holds(test::slurp(folder / "log-1"), "threads"));
  EXPECT_FALSE(fs::exists(folder / "never"));
}

// What ends one rank ends all, with its code and its name.
TEST(RanksOfARun, AnErrorOfOneRankIsEveryonesError) {
  const TemporaryFolder folder;
  const std::vector<int> codes = as_ranks(2, folder, [&](int64_t rank) {
    SmallRun run(lanes_recipe(), {.output = folder / "run"});
    run.trainer.on_update([&](const UpdateRecord& record) -> Flow {
      if (rank == 1 && record.update == 3) throw std::runtime_error("no more of this");
      return Flow::kContinue;
    });
    return code_of(run.trainer.fit());
  });
  const int broken = static_cast<int>(ExitCode::kBrokenContract);
  EXPECT_EQ(codes, (std::vector{broken, broken}));
  EXPECT_TRUE(test::holds(test::slurp(folder / "log-0"), "rank 1 on "));
  EXPECT_TRUE(test::holds(test::slurp(folder / "log-0"), "no more of this"));
  EXPECT_EQ(read_json(folder / "run" / "summary.json").at("status"), "failed");
}

// The first rank hears of it where it looks at the states of both, after an update that it has made.
TEST(RanksOfARun, AnUpdateThatIsSavedWhenARankIsLostIsAmongTheMetrics) {
  const TemporaryFolder folder;
  as_ranks(2, folder, [&](int64_t rank) {
    const TensorDataset data = test::small_data(1000);
    auto task = std::make_unique<Keeping>(/*keeps_samples=*/false);
    if (rank == 1) task->fails_after = 2;
    return code_of(Trainer(lanes_recipe(), std::move(task), data, {.output = folder / "run"}).fit());
  });
  ASSERT_TRUE(fs::exists(folder / "run" / "checkpoints" / "update-2")) << test::slurp(folder / "log-0");
  std::vector<int64_t> updates;
  for (const auto& row : read_metrics(folder / "run" / "metrics.jsonl")) {
    if (row.at("kind") == "update") updates.push_back(row.at("update"));
  }
  EXPECT_EQ(updates, (std::vector<int64_t>{1, 2}));
}

// The others have their devices still: they save what they learned.
TEST(RanksOfARun, ADeviceThatOneRankLosesEndsAllWithItsCode) {
  const TemporaryFolder folder;
  const std::vector<int> codes = as_ranks(2, folder, [&](int64_t rank) {
    SmallRun run(lanes_recipe(), {.output = folder / "run"});
    run.trainer.on_update([&](const UpdateRecord& record) -> Flow {
      if (rank == 1 && record.update == 6)
        throw c10::AcceleratorError({__func__, __FILE__, 1}, 719, "CUDA error: unspecified launch failure");
      return Flow::kContinue;
    });
    return code_of(run.trainer.fit());
  });
  const int lost = static_cast<int>(ExitCode::kDeviceLost);
  EXPECT_EQ(codes, (std::vector{lost, lost}));
  EXPECT_TRUE(test::holds(test::slurp(folder / "log-0"), "rank 1 on "));
  EXPECT_TRUE(test::holds(test::slurp(folder / "log-0"), "unspecified launch failure"));
  EXPECT_TRUE(fs::exists(folder / "run" / "checkpoints" / "update-6"));
}

// Each rank of a model that was seeded otherwise begins with the first one's weights, as everyone else's
// does.
TEST(RanksOfARun, BeginWithTheFirstOnesWeights) {
  const TemporaryFolder folder;
  const fs::path alike = run_by(2, folder, "alike", lanes_recipe());
  const std::vector<int> codes = as_ranks(2, folder, [&](int64_t rank) {
    SmallRun run(lanes_recipe(), {.output = folder / "other"});
    const torch::NoGradGuard no_gradients;
    if (rank == 1) {
      for (const torch::Tensor& weight : run.trainer.module().parameters()) weight.add_(1);
    }
    const at::AutoGradMode gradients(true);
    return code_of(run.trainer.fit());
  });
  EXPECT_EQ(codes, (std::vector{0, 0}));
  EXPECT_EQ(model_digest(folder / "other", kUpdates), model_digest(alike, kUpdates));
}

}  // namespace
}  // namespace autotrain
