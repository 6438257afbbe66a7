#include "state/snapshot.h"

#include "autotrain/log.h"
#include "state/run_folder.h"
#include "support/small_run.h"

namespace autotrain {
namespace {

nlohmann::ordered_json state_of_a_run() {
  SavedRun run;
  run.plan.effective_batch = run.plan.micro_batch = 10;
  run.plan.window = 1;
  return state_to_json(run);
}

TEST(SavedRun, OfAPlanThatNoSearchEndsWithIsNamedByFileAndField) {
  EXPECT_EQ(saved_run(state_of_a_run()).plan.micro_batch, 10);
  for (const auto& [field, value] : {std::pair("micro_batch", 0),
                                     {"effective_batch", 0},
                                     {"window", -1},
                                     {"lanes", 0},
                                     {"evaluation_micro_batch", -3},
                                     {"loss_factor", 0}}) {
    auto state = state_of_a_run();
    state["plan"][field] = value;
    const Error error =
        test::expect_error(ExitCode::kBadData, [&] { saved_run(state, "run/update-3/state.json"); });
    EXPECT_EQ(error.where(), "run/update-3/state.json");
    EXPECT_TRUE(test::holds(error.problem(), "plan: " + std::string(field) + " is " + std::to_string(value)));
  }
}

TEST(SavedRun, WithoutAPartSaysWhich) {
  for (const char* const part : {"run", "plan", "identity", "recipe"}) {
    auto state = state_of_a_run();
    state.erase(part);
    const Error error = test::expect_error(ExitCode::kBadData, [&] { saved_run(state); });
    EXPECT_TRUE(test::holds(error.problem(), std::string(part) + ": "));
    EXPECT_EQ(error.problem().find("json.exception"), std::string::npos) << error.problem();
  }
}

TEST(Resume, OfACheckpointWhoseFolderWasRenamedIsRefused) {
  const test::TemporaryFolder folder;
  Recipe r = test::typed_recipe();
  r.stop.epochs = 1;
  test::fit(r, folder / "run");
  const auto checkpoints = folder / "run" / "checkpoints";
  std::filesystem::rename(checkpoints / "update-7", checkpoints / "update-99");
  const Error error =
      test::expect_error(ExitCode::kBadData, [&] { test::fit(r, folder / "run", /*resume=*/true); });
  EXPECT_TRUE(test::holds(error.where(), "update-99/state.json"));
  EXPECT_TRUE(test::holds(error.problem(), "updates is 7"));
}

TEST(RunFolder, TellsOfRowsThatAreMissingUpToTheCheckpoint) {
  const test::TemporaryFolder parent;
  RunFolder folder(test::small_recipe(), {.output = parent / "run"});
  int told = 0;
  log::set_sink(
      [&](const log::Record& record) {
        told += record.text.find("rows before it are missing") != std::string::npos ? 1 : 0;
      },
      log::Level::kWarning);
  folder.open_metrics(0);
  EXPECT_EQ(told, 0) << "there were none";
  folder.on_event({.update = 1, .event = EventKind::kBatch, .detail = "more"});
  folder.flush();
  folder.open_metrics(folder.metrics().bytes());
  EXPECT_EQ(told, 0);
  folder.open_metrics(folder.metrics().bytes() + 1);
  EXPECT_EQ(told, 1);
  std::filesystem::remove(parent / "run" / "metrics.jsonl");
  folder.open_metrics(7);
  EXPECT_EQ(told, 2);
  log::set_sink(log::terminal_sink(), log::Level::kWarning);
}

}  // namespace
}  // namespace autotrain
