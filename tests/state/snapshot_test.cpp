#include "state/snapshot.h"

#include "autotrain/log.h"
#include "base/files.h"
#include "base/text.h"
#include "checkpoint/safetensors.h"
#include "data/fingerprint.h"
#include "model/torchscript.h"
#include "recipe/writer.h"
#include "state/catalog.h"
#include "state/data_files.h"
#include "state/resume.h"
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

Recipe recipe_for_tables(const std::filesystem::path& folder) {
  Recipe r = test::small_recipe();
  const auto table = [&](const char* name) {
    return Choice{"table", {{"file", (folder / name).string()}, {"target", std::string("y")}}};
  };
  r.data.train = table("train.csv");
  r.data.validation = table("validation.csv");
  return r;
}

// As a checkpoint of that recipe has it.
SavedRun saved_with_data(const Recipe& r) {
  SavedRun saved;
  saved.recipe = write_recipe(r, catalog());
  saved.state.position.best_of = terms_of_best(r);
  for (const Choice& data : {r.data.train, *r.data.validation}) {
    for (const auto& [path, fingerprint] : fingerprints_of_data(data))
      saved.identity[fact_of_file(path)] = fingerprint;
  }
  return saved;
}

TEST(Resume, DataThatWereMovedAreTheSameData) {
  const test::TemporaryFolder folder;
  const auto here = folder / "here", there = folder / "there";
  std::filesystem::create_directory(here);
  for (const char* const name : {"train.csv", "validation.csv"}) write_file(here / name, "x,y\n1,2\n");
  const SavedRun before = saved_with_data(recipe_for_tables(here));
  std::filesystem::rename(here, there);
  const Recipe now = recipe_for_tables(there);
  SavedRun saved = before;
  follow_data(saved, now);
  EXPECT_TRUE(changes_of_recipe(saved, now).empty());
  EXPECT_EQ(saved.state.position.best_of, terms_of_best(now)) << "so that the best is the best still";
  EXPECT_EQ(saved.identity.at(fact_of_file((there / "train.csv").string())),
            before.identity.at(fact_of_file((here / "train.csv").string())));

  write_file(there / "validation.csv", "x,y\n1,3\n");
  saved = before;
  follow_data(saved, now);
  const std::vector<KeyDifference> changes = changes_of_recipe(saved, now);
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].path, "data.validation.file");
  EXPECT_NE(saved.state.position.best_of, terms_of_best(now)) << "figures of other data";
}

TEST(Resume, DataOfWhichNotAllBytesAreComparedAreOthersElsewhere) {
  const test::TemporaryFolder folder;
  const auto here = folder / "here", there = folder / "there";
  std::filesystem::create_directory(here);
  for (const char* const name : {"train.csv", "validation.csv"}) write_file(here / name, "x,y\n1,2\n");
  std::filesystem::resize_file(here / "train.csv", (int64_t{64} << 20) + 1);
  SavedRun saved = saved_with_data(recipe_for_tables(here));
  std::filesystem::rename(here, there);
  const Recipe now = recipe_for_tables(there);
  follow_data(saved, now);
  const std::vector<KeyDifference> changes = changes_of_recipe(saved, now);
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].path, "data.train.file");
}

TEST(Resume, WeightsAndModelsThatWereMovedAreTheSame) {
  const test::TemporaryFolder folder;
  const auto recipe_at = [&](const std::string& name) {
    Recipe r = test::small_recipe();
    r.model = {"torchscript", {{"file", (folder / (name + ".pt")).string()}}};
    r.weights.file = (folder / (name + ".safetensors")).string();
    return r;
  };
  const Recipe before = recipe_at("before"), now = recipe_at("now");
  for (const char* const name : {"before", "now"}) {
    write_file(folder / cat(name, ".pt"), "a module");
    write_safetensors(folder / cat(name, ".safetensors"), {{"w", torch::ones({2})}});
  }
  SavedRun was;
  was.recipe = write_recipe(before, catalog());
  was.identity = {{"model's file", digest_of_script(folder / "before.pt")},
                  {"initial weights", fingerprint_of_weights(*before.weights.file)}};
  SavedRun saved = was;
  follow_data(saved, now);
  EXPECT_TRUE(changes_of_recipe(saved, now).empty());

  const auto changed_keys_of = [&] {
    saved = was;
    follow_data(saved, now);
    std::vector<std::string> keys;
    for (const KeyDifference& key : changes_of_recipe(saved, now)) keys.push_back(key.path);
    return keys;
  };
  write_file(folder / "now.pt", "another module");
  EXPECT_EQ(changed_keys_of(), std::vector<std::string>{"model.file"});
  write_safetensors(folder / "now.safetensors", {{"w", torch::zeros({2})}});
  EXPECT_EQ(changed_keys_of(), (std::vector<std::string>{"model.file", "model.weights.file"}));
}

TEST(Resume, WhatTheBestWasFoundByIsReadInTodaysWords) {
  const Recipe r = test::small_recipe();
  SavedRun saved;
  saved.recipe = write_recipe(r, catalog());
  follow_data(saved, r);
  EXPECT_EQ(saved.state.position.best_of, "") << "of a version that did not note it";
  saved.state.position.best_of = "evaluation.monitor: loss";  // of one with fewer keys
  follow_data(saved, r);
  EXPECT_EQ(saved.state.position.best_of, terms_of_best(r));
}

TEST(RunFolder, IsWrittenToByItsPathWhileThatLeadsThere) {
  const test::TemporaryFolder parent;
  RunFolder folder(test::small_recipe(), {.output = parent / "run" / ""});
  EXPECT_EQ(folder.path(), parent / "run") << "whose last part is a name";
  folder.begin_session();
  folder.write_json("summary.json", {{"of", "one"}});
  std::filesystem::rename(parent / "run", parent / "moved");
  const auto write = [&] { folder.write_json("summary.json", {{"of", "one"}}); };
  const Error error = test::expect_error(ExitCode::kInputOutput, write);
  EXPECT_EQ(error.where(), (parent / "run").string());
  RunFolder other(test::small_recipe(), {.output = parent / "run"});
  other.begin_session();
  other.write_json("summary.json", {{"of", "another"}});
  test::expect_error(ExitCode::kInputOutput, write);
  EXPECT_EQ(test::read_json(parent / "run" / "summary.json").at("of"), "another");
}

TEST(RunFolder, WhereNobodyMayLookIsNamed) {
  const test::TemporaryFolder parent;
  std::filesystem::create_symlink(parent / "b", parent / "a");
  std::filesystem::create_symlink(parent / "a", parent / "b");
  const Error error = test::expect_error(
      ExitCode::kInputOutput, [&] { RunFolder(test::small_recipe(), {.output = parent / "a" / "run"}); });
  EXPECT_TRUE(test::holds(error.where(), (parent / "a" / "run").string()));
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
