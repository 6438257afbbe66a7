#include "report/run_columns.h"

#include <algorithm>
#include <cmath>

#include "base/files.h"
#include "report/metrics_file.h"
#include "report/run_charts.h"
#include "report/run_page.h"
#include "report/tensorboard_file.h"
#include "support/support.h"

namespace autotrain {
namespace {

using Json = nlohmann::ordered_json;
using Rows = std::vector<std::vector<std::string>>;

UpdateRecord some_update(int64_t update, int64_t batch) {
  return {.update = update,
          .epoch = 0.5,
          .samples = 128,
          .effective_batch = batch,
          .loss = 2.25,
          .lr = 0.001,
          .grad_norm = INFINITY,
          .scale = 1,
          .samples_per_second = 512,
          .peak_bytes = 3 << 20,
          .data_wait_fraction = 0.125,
          .training_seconds = 0.75,
          .activity_seconds = {{"copy", 0.25}, {"forward", 0.5}},
          .ranks = RankTimes{.fastest = 1, .mean = 2, .slowest = 3, .slowest_rank = 1},
          .noise = GradientNoise{.trace = 5, .square = -1}};
}

TEST(RunColumns, ARowOfAnUpdateHasTheseBytes) {
  EXPECT_EQ(metrics_row(some_update(2, 64)).dump(),
            R"({"kind":"update","update":2,"epoch":0.5,"samples":128,"effective_batch":64,"loss":2.25,)"
            R"("lr":0.001,"grad_norm":null,"scale":1.0,"samples_per_second":512.0,"peak_bytes":3145728,)"
            R"("data_wait_fraction":0.125,"training_seconds":0.75,)"
            R"("activity_seconds":{"copy":0.25,"forward":0.5},)"
            R"("rank_seconds":{"fastest":1.0,"mean":2.0,"slowest":3.0,"slowest_rank":1},)"
            R"("gradient_noise":{"trace":5.0,"square":-1.0,"samples":null,"low":null,"high":null}})");
}

TEST(RunColumns, ARowOfAnEvaluationHasTheseBytes) {
  EXPECT_EQ(metrics_row(EvaluationRecord{.update = 2,
                                         .epoch = 0.5,
                                         .split = "validation",
                                         .figures = {{"accuracy", 0.25}, {"loss", NAN}},
                                         .seconds = 0.5,
                                         .samples = 9})
                .dump(),
            R"({"kind":"evaluation","update":2,"epoch":0.5,"split":"validation","accuracy":0.25,)"
            R"("loss":null,"seconds":0.5,"samples":9})");
}

TEST(RunColumns, ASummaryHasTheseBytes) {
  const Summary summary = {.status = RunStatus::kFailed,
                           .exit_code = 74,
                           .error = "disk full",
                           .stopped_by = StopReason::kError,
                           .updates = 3,
                           .final = {{"loss", 0.5}},
                           .oom_recoveries = 2,
                           .noise_scale = NoiseScale{.low = 16},
                           .ranks = {{.host = "a", .seconds = 1.5, .slowest = 2}}};
  EXPECT_EQ(
      summary_to_json(summary).dump(),
      R"({"status":"failed","exit_code":74,"error":"disk full","stopped_by":"error","updates":3,"epochs":0.0,)"
      R"("samples":0,"seconds":0.0,"samples_per_second":0.0,"final":{"loss":0.5},"best":{},"test":{},)"
      R"("figure_kinds":{},"tables":{},"peak_bytes":0,"oom_recoveries":2,"skipped_updates":0,"rollbacks":0,)"
      R"("bad_samples":0,"loader_workers":0,"checkpoint_stall_seconds":0.0,"data_wait_fraction":0.0,)"
      R"("activity_seconds":{},"telemetry":{},"noise_scale":{"samples":null,"low":16.0,"high":null},)"
      R"("preconditioned_noise_scale":null,"ranks":[{"host":"a","seconds":1.5,"slowest":2}],)"
      R"("rank_wait_fraction":0.0})");
}

// So a column that is added to the list needs no other place.
TEST(RunColumns, EveryNumberOfAnUpdateIsInTheFilesAndWhatIsDrawnIsOnThePage) {
  const test::TemporaryFolder folder;
  {
    TensorBoardFile board(folder.path(), 0);
    MetricsFile metrics(folder / "metrics.jsonl", {});
    for (int64_t update = 1; update <= 3; ++update) {
      board.write(some_update(update, 32 * update));
      metrics.write(some_update(update, 32 * update));
    }
    board.flush();
  }
  std::string events;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    if (entry.path().filename() != "metrics.jsonl") events += read_file(entry.path());
  }
  const RunHistory history = read_history(folder / "metrics.jsonl");
  std::vector<page::Chart> charts = training_charts(history);
  for (page::Chart& chart : memory_charts(history, Json::object())) charts.push_back(std::move(chart));
  for (const Column<UpdateRecord>& column : update_columns()) {
    SCOPED_TRACE(column.name);
    if (!column.value(some_update(1, 32)).is_number()) continue;
    EXPECT_NE(history.updates.find(column.name), nullptr);
    EXPECT_TRUE(column.name == "update" || test::holds(events, "train/" + column.name));
    if (!column.plot || column.name == "grad_norm") continue;  // which is infinite here
    EXPECT_EQ(std::ranges::count(charts, column.plot->title, &page::Chart::title), 1);
  }
}

TEST(RunColumns, WhatRunsThatComputeTheSameMayDifferInIsKnown) {
  std::vector<std::string> keys = timed_keys();
  std::ranges::sort(keys);
  EXPECT_EQ(keys,
            (std::vector<std::string>{"activity_seconds", "data_wait_fraction", "peak_bytes", "rank_seconds",
                                      "samples_per_second", "seconds", "training_seconds"}));
}

TEST(RunColumns, ThePageTellsOfARunWhatTheTerminalTells) {
  RunEnd end{Summary{.updates = 3,
                     .epochs = 1.5,
                     .samples = 96,
                     .seconds = 2,
                     .samples_per_second = 48,
                     .final = {{"loss", 0.5}},
                     .best = {{"loss", 0.25}, {"update", 2}},
                     .peak_bytes = 3 << 20,
                     .rollbacks = 1,
                     .noise_scale = NoiseScale{.low = 16}}};
  end.budget_bytes = 4 << 20;
  const Rows words = in_words(end);
  EXPECT_EQ(words[0], (std::vector<std::string>{"status", "completed, stopped by "}));
  EXPECT_EQ(words[1], (std::vector<std::string>{"trained", "3 updates, 1.50 epochs, 96 samples in 2.0 s"}));
  EXPECT_EQ(words[2], (std::vector<std::string>{"speed", "48.0 samples/s, 0.0 % waiting for data"}));
  EXPECT_EQ(words[3], (std::vector<std::string>{"final", "loss 0.5000"}));
  EXPECT_EQ(words[4], (std::vector<std::string>{"best", "loss 0.2500 at update 2"}));
  EXPECT_EQ(words[5],
            (std::vector<std::string>{"peak memory",
                                      "3.00 MiB of 4.00 MiB (75.0 %), reserved plus outside the allocator"}));
  EXPECT_EQ(words[6], (std::vector<std::string>{"rolled back", "1 times to a checkpoint"}));
  EXPECT_EQ(words[7][0], "gradient noise scale");
  EXPECT_EQ(words.size(), 8u);
  const test::TemporaryFolder folder;
  write_file_atomically(folder / "summary.json", text_of_json(summary_to_json(end)));
  write_file_atomically(folder / "plan.json", R"({"budget_bytes": 4194304})");
  EXPECT_EQ(run_page(folder.path(), {}, {}).sections.at(0).tables.at(0).rows, words);
}

TEST(RunColumns, TheDocumentationNamesEveryColumn) {
  const std::string formats = read_file(std::filesystem::path(AUTOTRAIN_SOURCE_DIR) / "docs" / "formats.md");
  const auto section = [&](const std::string& title) {
    const size_t from = formats.find("### " + title);
    return formats.substr(from, formats.find("\n### ", from) - from);
  };
  const auto names = [](const auto& columns) { return csv_header(columns); };
  for (const std::string& name : names(update_columns()))
    EXPECT_TRUE(test::holds(section("metrics.jsonl"), name)) << name;
  for (const std::string& name : names(evaluation_columns()))
    EXPECT_TRUE(test::holds(section("metrics.jsonl"), name)) << name;
  for (const std::string& name : names(summary_columns()))
    EXPECT_TRUE(test::holds(section("summary.json"), name)) << name;
}

}  // namespace
}  // namespace autotrain
