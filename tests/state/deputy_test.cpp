#include "state/deputy.h"

#include <algorithm>
#include <fstream>

#include "report/metrics_file.h"
#include "state/snapshot.h"
#include "support/run_workbench.h"
#include "support/support.h"

namespace autotrain {
namespace {

namespace fs = std::filesystem;
using test::SmallNet;

// The folder of a run whose first rank has come to some update, seen by another rank.
struct LostRun {
  explicit LostRun(SmallNet::Middle middle = SmallNet::Middle::kNothing)
      : train(test::small_data(100)),
        recipe(test::small_recipe()),
        bench(test::make_workbench(recipe, test::small_task(middle), train)),
        folder(recipe, {.output = parent / "run"}),
        session(folder.begin_session()) {
    folder.open_metrics({});
  }

  Deputy deputy() const { return {folder.path(), session, *bench, 0}; }

  std::string save(const Deputy& deputy, int64_t update, int64_t best = -1) const {
    RunState state{.position = {.updates = update, .best_update = best}};
    return deputy.save(state.position, [&](int64_t metrics_bytes) {
      state.position.metrics_bytes = metrics_bytes;
      SavedRun saved{.state = state, .plan = {}};
      saved.plan.effective_batch = saved.plan.micro_batch = 10;
      saved.plan.window = 1;
      return checkpoint_content(*bench, saved);
    });
  }

  // What stands in the folder, but for hidden files and metrics.jsonl.
  std::vector<std::string> rescued() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder.path())) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with("rescued-")) names.push_back(name);
    }
    return names;
  }

  std::vector<int64_t> updates_in_metrics() const {
    std::vector<int64_t> updates;
    for (const auto& row : read_metrics(folder.path() / "metrics.jsonl")) updates.push_back(row.at("update"));
    return updates;
  }

  test::TemporaryFolder parent;
  TensorDataset train;
  Recipe recipe;
  std::unique_ptr<Workbench> bench;
  RunFolder folder;
  std::string session;
};

UpdateRecord record_of(int64_t update, double rate) {
  return {.update = update, .loss = 1.0 / static_cast<double>(update), .lr = 0.1, .samples_per_second = rate};
}

void follow(RunObserver& rank, int64_t from, int64_t to, double rate) {
  for (int64_t update = from; update <= to; ++update) {
    rank.on_update(record_of(update, rate), 0);
    if (update % 4 == 0) rank.on_evaluation({.update = update, .split = "validation", .figures = {}});
  }
}

TEST(Deputy, SavesTheStateWithTheRowsThatTheFirstRankHasNotWritten) {
  LostRun run;
  Deputy deputy = run.deputy();
  follow(run.folder, 1, 5, 100);
  run.folder.flush();
  follow(deputy, 1, 9, 200);
  const std::string where = run.save(deputy, 9);
  EXPECT_TRUE(fs::exists(fs::path(where) / "manifest.json")) << where;
  EXPECT_TRUE(run.folder.checkpoints().updates().empty()) << "those are the first rank's";
  follow(run.folder, 6, 7, 100);  // it was not lost, as it turns out: what it writes now does not count
  run.folder.flush();
  EXPECT_EQ(rescued_state(run.folder.path(), 8), where) << "a later one goes on from there, too";
  EXPECT_EQ(rescued_state(run.folder.path(), 9), where);
  EXPECT_EQ(rescued_state(run.folder.path(), 10), "");

  take_over_rescued(run.folder);
  EXPECT_EQ(run.folder.checkpoints().updates(), std::vector<int64_t>{9});
  EXPECT_EQ(run.updates_in_metrics(), (std::vector<int64_t>{1, 2, 3, 4, 4, 5, 6, 7, 8, 8, 9}));
  EXPECT_TRUE(run.rescued().empty());
  const auto state = run.folder.checkpoints().read_state(9).at("run");
  EXPECT_EQ(state.at("metrics_bytes").get<uintmax_t>(), fs::file_size(run.folder.path() / "metrics.jsonl"));
}

TEST(Deputy, SavesAllRowsWhereTheFirstRankHasWrittenNone) {
  LostRun run;
  Deputy deputy = run.deputy();
  follow(deputy, 1, 3, 200);
  run.save(deputy, 3);
  take_over_rescued(run.folder);
  EXPECT_EQ(run.updates_in_metrics(), (std::vector<int64_t>{1, 2, 3}));
}

// After a rollback rows of the same update come again, and only one of them is the one that was written.
TEST(Deputy, KnowsRowsOfTheSameUpdateApart) {
  LostRun run;
  Deputy deputy = run.deputy();
  follow(run.folder, 1, 3, 100);
  run.folder.flush();
  follow(deputy, 1, 3, 200);
  for (const int64_t update : {2, 3}) {
    UpdateRecord again = record_of(update, 200);
    again.lr = 0.05;
    deputy.on_update(again, 0);
  }
  run.save(deputy, 3);
  take_over_rescued(run.folder);
  EXPECT_EQ(run.updates_in_metrics(), (std::vector<int64_t>{1, 2, 3, 2, 3}));
}

TEST(Deputy, OneOfManySaves) {
  const LostRun run;
  const Deputy one = run.deputy(), other = run.deputy();
  EXPECT_NE(run.save(one, 4), "");
  EXPECT_EQ(run.save(other, 4), "");
  EXPECT_NE(run.save(other, 5), "") << "which is another state";
}

TEST(Deputy, WhatIsNotWholeIsNotSaved) {
  LostRun run(SmallNet::Middle::kBatchNorm);
  const Deputy deputy = run.deputy();
  EXPECT_EQ(run.save(deputy, 4, /*best=*/2), "") << "the best checkpoint is not there";
  EXPECT_NE(run.save(deputy, 4, /*best=*/4), "") << "it is this one";
  {
    const torch::NoGradGuard no_gradients;
    run.bench->task->module().buffers().at(0).add_(1);
  }
  EXPECT_EQ(run.save(deputy, 5), "") << "the first rank had other statistics";
  LostRun other;
  const Deputy late = other.deputy();
  other.folder.begin_session();
  EXPECT_EQ(other.save(late, 4), "") << "the run goes on without it";
}

TEST(Deputy, WhatTheFirstRankHasSavedStands) {
  LostRun run;
  const Deputy deputy = run.deputy();
  run.folder.checkpoints().write(4, checkpoint_content(*run.bench, {.state = {}, .plan = {}}));
  EXPECT_EQ(run.save(deputy, 4), run.folder.checkpoints().path_of(4).string());
  EXPECT_TRUE(run.rescued().empty());
  EXPECT_NE(run.save(deputy, 3), "");
  take_over_rescued(run.folder);
  EXPECT_EQ(run.folder.checkpoints().updates(), std::vector<int64_t>{4}) << "it is newer";
}

// One that comes late, a torn one, and one whose disk has changed.
TEST(Deputy, WhatIsOfAnotherSessionOrBrokenIsDropped) {
  LostRun run;
  const Deputy deputy = run.deputy();
  run.save(deputy, 4);
  const fs::path broken = run.save(deputy, 6);
  std::ofstream(broken / "model.safetensors", std::ios::app) << "more";
  fs::create_directories(run.folder.path() / ("rescued-" + run.session + "-7") / ".update-7.tmp");
  take_over_rescued(run.folder);
  EXPECT_EQ(run.folder.checkpoints().updates(), std::vector<int64_t>{4});
  EXPECT_TRUE(run.rescued().empty());
  run.save(deputy, 8);
  run.folder.begin_session();
  take_over_rescued(run.folder);
  EXPECT_EQ(run.folder.checkpoints().updates(), std::vector<int64_t>{4});
  EXPECT_TRUE(run.rescued().empty());
}

}  // namespace
}  // namespace autotrain
