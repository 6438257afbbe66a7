#include "predict/predict.h"

#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <fstream>
#include <sstream>

#include "autotrain/trainer.h"
#include "base/file_layer.h"
#include "base/interrupt.h"
#include "base/text.h"
#include "data/datasets.h"
#include "predict/predictor.h"
#include "report/metrics_file.h"
#include "support/images.h"
#include "support/refusals.h"
#include "support/small_run.h"
#include "support/support.h"

namespace autotrain {
namespace {

namespace fs = std::filesystem;
using test::expect_error;
using test::holds;
using test::slurp;
using test::TemporaryFolder;

constexpr int64_t kSamples = 500;

Recipe vectors_recipe() {
  Recipe r = test::small_recipe();
  r.data.train = {"synthetic", {{"kind", std::string("vectors")}, {"samples", int64_t{512}}}};
  r.data.validation = {"synthetic",
                       {{"kind", std::string("vectors")}, {"samples", kSamples}, {"first", int64_t{100000}}}};
  r.model = {"mlp", {}};
  r.stop.updates = 6;
  r.execution.threads = 1;
  return r;
}

// A run that was trained once for all tests of this file.
const fs::path& trained_run() {
  static const TemporaryFolder folder;
  static const fs::path run = [] {
    const fs::path path = folder / "run";
    Trainer::from_recipe(vectors_recipe(), {.output = path}).fit();
    return path;
  }();
  return run;
}

PredictOptions options_for(const fs::path& output, int64_t batch = 32) {
  return {.run = {trained_run()}, .output = output, .batch = batch};
}

std::vector<std::vector<std::string>> rows_of(const fs::path& csv) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream in(slurp(csv));
  for (std::string line; std::getline(in, line);) rows.push_back(split(trim(line), ','));
  rows.erase(rows.begin());
  return rows;
}

// Stops a prediction after a batch, as a crash does: nothing is marked, nothing is finished.
struct Crash {};

TEST(Predict, EverySampleHasOneRowInOrder) {
  const TemporaryFolder folder;
  const PredictionSummary summary = predict(options_for(folder / "p.csv"));
  const auto rows = rows_of(folder / "p.csv");
  ASSERT_EQ(std::ssize(rows), kSamples);
  for (int64_t i = 0; i < kSamples; ++i) EXPECT_EQ(rows[static_cast<size_t>(i)][0], std::to_string(i));
  EXPECT_EQ(summary.samples, kSamples);
  EXPECT_EQ(summary.batch, 32);
  EXPECT_EQ(summary.update, 6);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1) << "nothing is left beside it";
}

TEST(Predict, ACrashAnywhereAndAResumeLeaveTheSameBytes) {
  const TemporaryFolder folder;
  for (const char* const ending : {"csv", "jsonl", "npy"}) {
    const fs::path whole = folder / (std::string("whole.") + ending);
    const fs::path path = folder / (std::string("p.") + ending);
    predict(options_for(whole));
    PredictOptions options = options_for(path);
    int crashes = 0;
    for (const int64_t at : {1, 3, 2, 7, 400}) {
      options.start = PredictionStart::kResume;
      int64_t batches = 0;
      try {
        predict(options, {.on_batch = [&](int64_t, int64_t, int64_t) {
                  if (++batches == at) throw Crash();
                }});
      } catch (const Crash&) {
        ++crashes;
        EXPECT_FALSE(fs::exists(path)) << "a file under the name is whole";
        // The torn end of a row, as a kill may leave it.
        std::ofstream(path.string() + ".partial", std::ios::app) << "torn,\x93";
      }
      if (fs::exists(path)) break;
    }
    EXPECT_EQ(crashes, 4);
    EXPECT_TRUE(slurp(path) == slurp(whole)) << ending;
  }
}

// A disk on which one call fails: the `which`-th that writes, syncs or renames.
class FailingDisk final : public FileLayer {
 public:
  explicit FailingDisk(int64_t which) : which_(which) {}
  ssize_t write(int descriptor, const void* bytes, size_t count) override {
    return fails() ? -1 : FileLayer::write(descriptor, bytes, count);
  }
  int sync(int descriptor) override { return fails() ? -1 : FileLayer::sync(descriptor); }
  int rename(const char* from, const char* to) override { return fails() ? -1 : FileLayer::rename(from, to); }
  bool failed() const { return calls_ >= which_; }

 private:
  bool fails() {
    if (++calls_ != which_) return false;
    errno = ENOSPC;
    return true;
  }
  int64_t which_, calls_ = 0;
};

TEST(Predict, ADiskThatFailsAtAnyCallAndAResumeLeaveTheSameBytes) {
  const TemporaryFolder folder;
  predict(options_for(folder / "whole.csv", 100));
  int64_t failures = 0;
  for (int64_t which = 1;; ++which) {
    const fs::path path = folder / (std::to_string(which) + ".csv");
    PredictOptions options = options_for(path, 100);
    FailingDisk disk(which);
    try {
      const FileLayerScope scope(disk);
      predict(options);
    } catch (const Error& error) {
      ++failures;
      EXPECT_EQ(error.code(), ExitCode::kInputOutput);
    }
    if (!disk.failed()) break;  // there are no more calls
    options.start = PredictionStart::kResume;
    if (!fs::exists(path)) predict(options);
    ASSERT_TRUE(slurp(path) == slurp(folder / "whole.csv")) << "call " << which;
  }
  EXPECT_GT(failures, 10);
}

TEST(Predict, AStopBySignalKeepsWhatIsDoneAndGoesOnWithoutTheBatch) {
  const TemporaryFolder folder;
  PredictOptions options = options_for(folder / "p.csv");
  const Error error = expect_error(ExitCode::kInterrupted, [&] {
    predict(options, {.on_batch = [](int64_t done, int64_t, int64_t) {
              if (done == 96) request_interrupt(Interrupt::kStop);
            }});
  });
  clear_interrupt();
  EXPECT_TRUE(holds(error.problem(), "96 of 500"));
  expect_error(ExitCode::kUsage, [&] { predict(options); });
  options.start = PredictionStart::kResume;
  options.batch = 33;
  expect_error(ExitCode::kUsage, [&] { predict(options); });
  options.batch.reset();
  const PredictionSummary summary = predict(options);
  EXPECT_EQ(summary.resumed_from, 96);
  EXPECT_EQ(summary.batch, 32);
  EXPECT_FALSE(summary.search);
  predict(options_for(folder / "whole.csv"));
  EXPECT_TRUE(slurp(folder / "p.csv") == slurp(folder / "whole.csv"));
}

TEST(Predict, WhatTheFirstPartWasMadeWithAndTheNextIsNotIsNamed) {
  const PredictionState kept{.identity = {{"update", 3}, {"score", 0.001}}};
  const Error error = expect_error(ExitCode::kUsage, [&] {
    check_same_prediction("p.csv", kept, {{"update", 3}});
  });
  EXPECT_TRUE(holds(error.problem(), "was begun with score 0.001"));
  check_same_prediction("p.csv", kept, {{"score", 0.001}, {"update", 3}});
}

// Images with a box each, and a detector that has seen them once.
void train_detector(const TemporaryFolder& folder) {
  for (int i = 0; i < 6; ++i) {
    folder.write(cat("images/", i, ".png"), test::png_file(test::plain_image(32, 32, {200, 200, 200})));
    folder.write(cat("labels/", i, ".txt"), "0 0.5 0.5 0.5 0.5\n");
  }
  folder.write("names", "thing\n");
  Recipe r = test::small_recipe();
  r.data.train = {"yolo",
                  {{"images", (folder / "images").string()},
                   {"names", (folder / "names").string()},
                   {"size", std::vector<int64_t>{32, 32}}}};
  r.data.validation = r.data.train;
  r.model = {"yolo", {{"size", std::string("p")}}};
  r.loss = {"yolo", {}};
  r.batch.effective = 2;
  r.stop.updates = 1;
  r.execution.threads = 1;
  Trainer::from_recipe(r, {.output = folder / "run"}).fit();
}

TEST(Predict, BoxesOfAnotherScoreDoNotGoIntoOneFile) {
  const TemporaryFolder folder;
  train_detector(folder);
  PredictOptions options{
      .run = {folder / "run"}, .output = folder / "b.jsonl", .batch = 2, .least_score = 0.001};
  expect_error(ExitCode::kInterrupted, [&] {
    predict(options, {.on_batch = [](int64_t, int64_t, int64_t) { request_interrupt(Interrupt::kStop); }});
  });
  clear_interrupt();
  options.start = PredictionStart::kResume;
  options.least_score.reset();
  const Error error = expect_error(ExitCode::kUsage, [&] { predict(options); });
  EXPECT_TRUE(holds(error.problem(), "was begun with score 0.001, and now it is 0.25"));
  options.least_score = 0.001;
  EXPECT_EQ(predict(options).samples, 6);
}

TEST(Predict, ATableThatIsPredictedIsNotReplacedByItsPredictions) {
  const TemporaryFolder folder;
  const std::string table = "a,b\n1,2\n";
  folder.write("t.csv", table);
  PredictOptions options = options_for(folder / "t.csv");
  options.data = (folder / "t.csv").string();
  options.start = PredictionStart::kOverwrite;
  const Error error = expect_error(ExitCode::kUsage, [&] { predict(options); });
  EXPECT_TRUE(holds(error.problem(), "is --data, too"));
  EXPECT_EQ(slurp(folder / "t.csv"), table);
}

TEST(Predict, FilesThatWouldBecomeOtherSamplesAreRefused) {
  const TemporaryFolder folder, images;
  for (int i = 0; i < 8; ++i) {
    const auto level = static_cast<uint8_t>(30 * i);
    images.write(cat(i % 2, "/", i, ".png"), test::png_file(test::plain_image(4, 4, {level, level, level})));
  }
  Recipe r = vectors_recipe();
  const std::vector<int64_t> size = {4, 4};
  r.data.train = {"image_folder", {{"root", images.path().string()}, {"size", size}}};
  r.data.validation = r.data.train;
  r.batch.effective = 4;
  r.stop.updates = 1;
  Trainer::from_recipe(r, {.output = folder / "run"}).fit();
  PredictOptions options{
      .run = {folder / "run"}, .data = images.path(), .output = folder / "p.csv", .batch = 2};
  EXPECT_THROW(predict(options, {.on_batch = [](int64_t, int64_t, int64_t) { throw Crash(); }}), Crash);
  options.start = PredictionStart::kResume;
  options.overrides = {"data.validation.mean=[0.1, 0.1, 0.1]"};
  const Error error = expect_error(ExitCode::kUsage, [&] { predict(options); });
  EXPECT_TRUE(holds(error.problem(), "was begun with data"));
  EXPECT_TRUE(holds(error.problem(), "mean=[0.1"));
  options.overrides = {};
  EXPECT_EQ(predict(options).samples, 8);
}

TEST(Predict, WhatWasBegunForOtherWeightsDataOrColumnsIsRefused) {
  const TemporaryFolder folder;
  const PredictOptions begun = options_for(folder / "p.csv");
  EXPECT_THROW(predict(begun, {.on_batch =
                                   [](int64_t done, int64_t, int64_t) {
                                     if (done > 64) throw Crash();
                                   }}),
               Crash);
  const auto refused = [&](const char* what, const std::function<void(PredictOptions&)>& change) {
    PredictOptions options = begun;
    options.start = PredictionStart::kResume;
    change(options);
    const Error error = expect_error(ExitCode::kUsage, [&] { predict(options); });
    EXPECT_TRUE(holds(error.problem(), std::string("was begun with ") + what));
  };
  refused("data", [](PredictOptions& o) { o.data = "train"; });
  refused("data", [](PredictOptions& o) { o.overrides = {"data.validation.first=7"}; });
  refused("columns", [](PredictOptions& o) { o.top = 2; });
  refused("loss", [](PredictOptions& o) { o.overrides = {"loss.ignore_index=3"}; });
  PredictOptions anew = begun;
  anew.start = PredictionStart::kOverwrite;
  predict(anew);
  expect_error(ExitCode::kUsage, [&] { predict(begun); });
}

TEST(Predict, ATableThatWasChangedSinceDoesNotGoIntoOneFile) {
  const TemporaryFolder folder;
  const std::string header = "a,y\n", rows = "1,0.5\n2,1.5\n3,2.5\n4,3.5\n";
  Recipe r = vectors_recipe();
  r.data.train = {
      "table", {{"file", folder.write("train.csv", header + rows).string()}, {"target", std::string("y")}}};
  r.data.validation = r.data.train;
  r.loss = {"mean_squared_error", {}};
  r.batch.effective = 4;
  r.stop.updates = 1;
  Trainer::from_recipe(r, {.output = folder / "run"}).fit();
  PredictOptions options{.run = {folder / "run"},
                         .data = folder.write("t.csv", header + rows).string(),
                         .output = folder / "p.csv",
                         .batch = 2};
  EXPECT_THROW(predict(options, {.on_batch = [](int64_t, int64_t, int64_t) { throw Crash(); }}), Crash);
  options.start = PredictionStart::kResume;
  folder.write("t.csv", header + "9,0.5\n8,1.5\n7,2.5\n6,3.5\n");
  const Error error = expect_error(ExitCode::kUsage, [&] { predict(options); });
  EXPECT_TRUE(holds(error.problem(), "was begun with files"));
  folder.write("t.csv", header + rows);
  EXPECT_EQ(predict(options).samples, 4);
}

TEST(Predict, ToResumeAWholeFileIsToBeDone) {
  const TemporaryFolder folder;
  PredictOptions options = options_for(folder / "p.csv");
  EXPECT_FALSE(predict(options).already_whole);
  const std::string before = slurp(folder / "p.csv");
  options.start = PredictionStart::kResume;
  EXPECT_TRUE(predict(options).already_whole);
  EXPECT_TRUE(slurp(folder / "p.csv") == before);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1) << "nothing is left beside it";
}

TEST(Predict, ABatchThatIsLargerThanTheDataIsAllOfThem) {
  const TemporaryFolder folder;
  PredictOptions options = options_for(folder / "p.csv", 10 * kSamples);
  EXPECT_EQ(predict(options).batch, kSamples);
  // A resume with the same option means the same batch.
  options = options_for(folder / "again.csv", kSamples);
  options.overrides = {"data.validation.samples=1000"};
  options.batch = 300;
  EXPECT_THROW(predict(options, {.on_batch = [](int64_t, int64_t, int64_t) { throw Crash(); }}), Crash);
  options.start = PredictionStart::kResume;
  EXPECT_EQ(predict(options).batch, 300);
}

TEST(Predict, FilesThatBecomeOtherSizesAreToldBeforeTheFirstRow) {
  const TemporaryFolder folder, images;
  for (int i = 0; i < 4; ++i) {
    const int side = i < 3 ? 4 : 9;
    images.write(cat(i % 2, "/", i, ".png"), test::png_file(test::plain_image(side, side, {10, 20, 30})));
  }
  Recipe r = vectors_recipe();
  r.data.train = {"image_folder", {{"root", images.path().string()}, {"size", std::vector<int64_t>{4, 4}}}};
  r.data.validation = r.data.train;
  const PredictionData files = load_prediction_data(r, images.path().string());
  EXPECT_EQ(files.note,
            "1 of 4 images have another size than the model's samples, and become 4 × 4 pixels: "
            "the largest middle part of that shape, resized");
  r.data.train.parameters["size"] = std::vector<int64_t>{9, 9};
  r.data.validation.reset();
  EXPECT_TRUE(holds(load_prediction_data(r, images.path().string()).note, "3 of 4 images"));
  EXPECT_EQ(load_prediction_data(r, "train").note, "") << "as they were trained on";
}

TEST(Predict, ASecondOneIntoTheSameFileIsRefusedAndLeavesTheFirstAlone) {
  const TemporaryFolder folder;
  predict(options_for(folder / "whole.csv"));
  const PredictOptions first = options_for(folder / "p.csv");
  folder.write("p.csv.partial.lock", "1\n");  // of a process that was killed: nobody holds it
  predict(first, {.on_batch = [&](int64_t done, int64_t, int64_t) {
            if (done != 96) return;
            for (const auto start :
                 {PredictionStart::kNew, PredictionStart::kResume, PredictionStart::kOverwrite}) {
              PredictOptions second = first;
              second.start = start;
              const Error error = expect_error(ExitCode::kUsage, [&] { predict(second); });
              EXPECT_TRUE(holds(error.problem(),
                                "process " + std::to_string(::getpid()) + " is writing a prediction there"));
            }
          }});
  EXPECT_TRUE(slurp(folder / "p.csv") == slurp(folder / "whole.csv"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 2) << "the lock is gone";
}

// Predicts with memory that is refused so often after 128 and after 256 samples, and a crash after 320 if
// asked for.
PredictionSummary predict_in_short_memory(const PredictOptions& options, int refusals_each, bool crash) {
  test::Refusals refusals;
  return predict(options, {.on_batch = [&](int64_t done, int64_t, int64_t) {
                   if (done == 128 || done == 256) refusals.arm(refusals_each);
                   if (crash && done == 320) throw Crash();
                 }});
}

// The command that was killed goes on with the batch that memory left it.
void expect_resumed_at_smaller_batch(const fs::path& path, const fs::path& undisturbed) {
  PredictOptions options = options_for(path, 64);
  EXPECT_THROW(predict_in_short_memory(options, 2, /*crash=*/true), Crash);
  options.start = PredictionStart::kResume;
  EXPECT_EQ(predict(options).batch, 16);
  EXPECT_TRUE(slurp(path) == slurp(undisturbed));
}

TEST(Predict, MemoryThatIsThereAgainChangesNoByte) {
  const TemporaryFolder folder;
  predict(options_for(folder / "whole.csv", 64));
  const PredictionSummary summary = predict_in_short_memory(options_for(folder / "p.csv", 64), 1, false);
  EXPECT_EQ(summary.oom_recoveries, 2);
  EXPECT_EQ(summary.batch, 64);
  EXPECT_TRUE(slurp(folder / "p.csv") == slurp(folder / "whole.csv"));
}

TEST(Predict, MemoryThatRunsOutHalvesTheBatchAndChangesRowsByRoundingOnly) {
  const TemporaryFolder folder;
  const PredictionSummary undisturbed = predict(options_for(folder / "whole.csv", 64));
  EXPECT_EQ(undisturbed.oom_recoveries, 0);
  const PredictionSummary summary = predict_in_short_memory(options_for(folder / "p.csv", 64), 2, false);
  EXPECT_EQ(summary.oom_recoveries, 4);
  EXPECT_EQ(summary.batch, 16);
  expect_resumed_at_smaller_batch(folder / "again.csv", folder / "p.csv");
  const auto rows = rows_of(folder / "p.csv"), whole = rows_of(folder / "whole.csv");
  ASSERT_EQ(rows.size(), whole.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i][0], whole[i][0]);
    EXPECT_EQ(rows[i][1], whole[i][1]) << "the class of sample " << i;
    EXPECT_NEAR(std::stod(rows[i][2]), std::stod(whole[i][2]), 1e-5);
    EXPECT_TRUE(i >= 128 || rows[i][2] == whole[i][2]) << "cut as the undisturbed one";
  }
}

TEST(Predict, MemoryThatIsShortMakesTheSearchFindASmallerBatch) {
  const TemporaryFolder folder;
  const auto batch_within = [&](const char* budget) {
    PredictOptions options = options_for(folder / (std::string(budget) + ".csv"));
    options.batch.reset();
    options.overrides = {std::string("execution.memory.budget=") + budget, "data.validation.samples=200000",
                         "execution.loader.workers=0"};
    EXPECT_THROW(predict(options, {.on_batch = [](int64_t, int64_t, int64_t) { throw Crash(); }}), Crash);
    return stopped_prediction(options.output)->batch;
  };
  const int64_t few = batch_within("8MiB"), many = batch_within("32MiB");
  EXPECT_GT(few, 1);
  EXPECT_LT(2 * few, many);
}

TEST(Predict, ThePredictedClassesAreThoseThatEvaluationCounts) {
  const TemporaryFolder folder;
  predict(options_for(folder / "p.csv"));
  double accuracy = -1;
  for (const auto& row : read_metrics(trained_run() / "metrics.jsonl")) {
    if (row.at("kind") == "evaluation" && row.at("update") == 6) accuracy = row.at("accuracy");
  }
  const auto data = make_dataset({*vectors_recipe().data.validation});
  const auto rows = rows_of(folder / "p.csv");
  int64_t right = 0;
  for (int64_t i = 0; i < kSamples; ++i) {
    const c10::ArrayRef<int64_t> index(i), epoch(i);
    const int64_t label = data->get(index, SampleRandom(0, index, epoch)).targets.item<int64_t>();
    right += rows[static_cast<size_t>(i)][1] == std::to_string(label) ? 1 : 0;
  }
  EXPECT_EQ(static_cast<double>(right) / static_cast<double>(kSamples), accuracy);
}

// As of a run that was killed, or is under way.
TEST(Predict, WithoutASummaryTheBestIsWhatTheNewestCheckpointKnows) {
  const TemporaryFolder folder;
  fs::copy(trained_run(), folder / "run", fs::copy_options::recursive);
  PredictOptions options = options_for(folder / "p.csv");
  options.run = {folder / "run", "best"};
  predict(options);
  const std::string before = slurp(folder / "p.csv");
  fs::remove(folder / "run" / "summary.json");
  options.start = PredictionStart::kOverwrite;
  predict(options);
  EXPECT_EQ(slurp(folder / "p.csv"), before);
  folder.write("run/summary.json", "{\"best\": null}");
  const Error error = expect_error(ExitCode::kMissingFile, [&] { predict(options); });
  EXPECT_TRUE(holds(error.problem(), "has no best checkpoint"));
}

TEST(Predict, DataOfAnotherShapeAreRefusedBeforeAnythingIsWritten) {
  const TemporaryFolder folder;
  for (const char* const other :
       {"data.validation.shape=[63]", "data.validation.kind=images", "data.validation.kind=tokens"}) {
    PredictOptions options = options_for(folder / "p.csv");
    options.overrides = {other};
    const Error error = expect_error(ExitCode::kBadData, [&] { predict(options); });
    EXPECT_TRUE(holds(error.problem(), "the model was built for samples of 64"));
  }
  PredictOptions options = options_for(folder / "p.csv");
  options.data = folder / "nothing";
  expect_error(ExitCode::kUsage, [&] { predict(options); });
  options.data = folder.path();
  expect_error(ExitCode::kBadRecipe, [&] { predict(options); });
  options = options_for(folder / "p.csv");
  options.overrides = {"data.validation=null"};
  expect_error(ExitCode::kUsage, [&] { predict(options); });
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

}  // namespace
}  // namespace autotrain
