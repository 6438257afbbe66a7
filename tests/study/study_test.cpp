#include "study/study.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "base/child.h"
#include "base/interrupt.h"
#include "comm/ranks.h"
#include "support/support.h"

namespace autotrain {
namespace {

using Json = nlohmann::ordered_json;
using test::TemporaryFolder;

// Appends a line to a file, so that what was done, in which order and how often can be told.
void note(const std::filesystem::path& file, const std::string& line) {
  std::ofstream(file, std::ios::app) << line << std::endl;
}

StudyRun noting_run(const TemporaryFolder& folder, const std::string& name, const Json& definition = {}) {
  return {name, name, definition, [file = folder / "done", name] { return note(file, name), Json(name); }};
}

TEST(Study, KeepsWhatIsFinishedAndRunsTheRestInOrder) {
  const TemporaryFolder folder;
  const StudyOptions options{.folder = folder / "study"};
  run_study({noting_run(folder, "b")}, options);
  const auto results =
      run_study({noting_run(folder, "a"), noting_run(folder, "b"), noting_run(folder, "c")}, options);
  EXPECT_EQ(test::slurp(folder / "done"), "b\na\nc\n");
  ASSERT_EQ(results.size(), 3u);
  EXPECT_EQ(results[1].value, "b");
  EXPECT_TRUE(results[1].kept);
  EXPECT_FALSE(results[2].kept);
}

TEST(Study, ARunOfAnotherDefinitionIsRefusedBeforeAnythingRuns) {
  const TemporaryFolder folder;
  const StudyOptions options{.folder = folder / "study"};
  run_study({noting_run(folder, "b", {{"lr", 0.1}})}, options);
  const Error error = test::expect_error(ExitCode::kUsage, [&] {
    run_study({noting_run(folder, "a"), noting_run(folder, "b", {{"lr", 0.2}})}, options);
  });
  EXPECT_TRUE(test::holds(error.what(), "lr is 0.1 there and 0.2 now"));
  EXPECT_TRUE(test::holds(error.what(), "--output"));
  EXPECT_EQ(test::slurp(folder / "done"), "b\n");
}

TEST(Study, SeveralRanksDoTheWorkAndTheFirstOnesResultCounts) {
  const TemporaryFolder folder;
  StudyRun run = noting_run(folder, "together");
  run.ranks = 3;
  run.work = [file = folder / "done"] {
    const auto ranks = Ranks::open(detect_launch(process_environment()));
    Json all = ranks->meet(ranks->place().rank);
    note(file, "came");
    return Json{{"rank", ranks->place().rank}, {"all", all}};
  };
  const auto results = run_study({run}, {.folder = folder / "study"});
  EXPECT_EQ(test::slurp(folder / "done"), "came\ncame\ncame\n");
  const Json wanted = {{"rank", 0}, {"all", {0, 1, 2}}};
  EXPECT_EQ(results.at(0).value, wanted);
}

TEST(Study, ARankThatIsKilledCostsItsRun) {
  const TemporaryFolder folder;
  StudyRun run = noting_run(folder, "together");
  run.ranks = 2;
  run.work = []() -> Json {
    const auto ranks = Ranks::open(detect_launch(process_environment()));
    ranks->meet("here");
    if (!ranks->first()) ::kill(::getpid(), SIGKILL);
    ranks->meet("there");
    return "done";
  };
  const auto results = run_study({run, noting_run(folder, "after")}, {.folder = folder / "study"});
  EXPECT_TRUE(results.at(0).failed());
  EXPECT_EQ(results.at(0).code, static_cast<int>(ExitCode::kInterrupted));
  EXPECT_EQ(results.at(1).value, "after");
}

TEST(Study, ACrashAndAnErrorAreRowsAndTheStudyGoesOn) {
  const TemporaryFolder folder;
  std::vector<StudyRun> runs = {noting_run(folder, "crash"), noting_run(folder, "large"),
                                noting_run(folder, "quits"), noting_run(folder, "good")};
  runs[0].work = []() -> Json { return ::kill(::getpid(), SIGKILL), Json(); };
  runs[1].work = []() -> Json { throw Error(ExitCode::kDoesNotFit, "plan", "needs more"); };
  runs[2].work = []() -> Json { ::_exit(3); };
  const auto results = run_study(runs, {.folder = folder / "study"});
  EXPECT_EQ(results[0].code, -SIGKILL);
  EXPECT_TRUE(test::holds(results[0].failure, "signal 9"));
  EXPECT_EQ(results[1].code, 71);
  EXPECT_TRUE(test::holds(results[1].failure, "needs more"));
  EXPECT_EQ(results[2].code, 3);
  EXPECT_FALSE(results[3].failed());
}

TEST(Study, AFailureIsKeptWhateverBytesItsMessageHas) {
  const TemporaryFolder folder;
  std::vector<StudyRun> runs = {noting_run(folder, "a", {{"root", "\xff"}})};
  runs[0].work = []() -> Json { throw Error(ExitCode::kMissingFile, "\xff.png", "cannot be read"); };
  const auto results = run_study(runs, {.folder = folder / "study"});
  EXPECT_EQ(results[0].code, 66);
  EXPECT_TRUE(test::holds(results[0].failure, "cannot be read"));
}

TEST(Study, WhatIsNotWantedAnyMoreIsLeftOut) {
  const TemporaryFolder folder;
  const std::vector<StudyRun> runs = {noting_run(folder, "a"), noting_run(folder, "b"),
                                      noting_run(folder, "c")};
  bool after_a = false;
  const auto results =
      run_study(runs, {.folder = folder / "study",
                       .wanted = [&](const StudyRun& run) { return !after_a || run.name != "b"; },
                       .on_result = [&](const StudyResult&) { after_a = true; }});
  EXPECT_EQ(test::slurp(folder / "done"), "a\nc\n");
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[1].name, "c");
}

TEST(Study, WhatCrashedIsRunAgainAndWhatDidNotFitIsNot) {
  const TemporaryFolder folder;
  std::vector<StudyRun> runs = {noting_run(folder, "crash"), noting_run(folder, "large"),
                                noting_run(folder, "wrong")};
  const auto fail_after_noting = [&](const std::string& name, ExitCode code) {
    return [file = folder / "done", name, code]() -> Json {
      note(file, name);
      throw Error(code, "", "it failed");
    };
  };
  runs[0].work = fail_after_noting("crash", ExitCode::kInternal);
  runs[1].work = fail_after_noting("large", ExitCode::kDoesNotFit);
  runs[2].work = fail_after_noting("wrong", ExitCode::kBadRecipe);
  for (int i = 0; i < 2; ++i) run_study(runs, {.folder = folder / "study"});
  EXPECT_EQ(test::slurp(folder / "done"), "crash\nlarge\nwrong\ncrash\n");
}

TEST(Study, KilledInTheMiddleItRepeatsNothingThatWasFinished) {
  const TemporaryFolder folder;
  std::vector<StudyRun> runs;
  for (int i = 0; i < 8; ++i) runs.push_back(noting_run(folder, "r" + std::to_string(i)));
  const StudyOptions options{.folder = folder / "study"};
  const auto waiting = folder / "waiting";
  runs[4].work = [waiting]() -> Json {  // as long as nobody removes the file
    note(waiting, "yes");
    test::wait_until([&] { return !std::filesystem::exists(waiting); });
    return {};
  };
  {
    Child study([&] { return run_study(runs, options), 0; }, folder / "log");
    test::wait_until([&] { return std::filesystem::exists(waiting); });
    study.send(SIGKILL);
    study.wait();
  }
  runs[4] = noting_run(folder, "r4");
  const auto results = run_study(runs, options);
  EXPECT_EQ(test::slurp(folder / "done"), "r0\nr1\nr2\nr3\nr4\nr5\nr6\nr7\n");
  EXPECT_EQ(std::count_if(results.begin(), results.end(), [](const StudyResult& r) { return r.kept; }), 4);
}

TEST(Study, AStopReachesTheRunUnderWayAndLeavesItUnfinished) {
  const TemporaryFolder folder;
  std::vector<StudyRun> runs = {noting_run(folder, "a"), noting_run(folder, "b")};
  runs[1].work = [started = folder / "started"]() -> Json {
    note(started, "yes");
    test::wait_until([] { return pending_interrupt() == Interrupt::kStop; });
    throw Error(ExitCode::kInterrupted, "", "stopped");
  };
  const StudyOptions options{.folder = folder / "study"};
  Child study([&] { return install_signal_handlers(), run_study(runs, options), 0; }, folder / "log");
  test::wait_until([&] { return std::filesystem::exists(folder / "started"); });
  study.send(SIGTERM);
  EXPECT_EQ(study.wait(), 75);
  runs[1] = noting_run(folder, "b");
  run_study(runs, options);
  EXPECT_EQ(test::slurp(folder / "done"), "a\nb\n");
}

TEST(Study, RoundsAreInterleavedAndEveryVariantStandsInEveryPlace) {
  const auto order = interleaved(3, 3);
  std::vector<std::pair<size_t, size_t>> expected = {{0, 0}, {0, 1}, {0, 2}, {1, 1}, {1, 2},
                                                     {1, 0}, {2, 2}, {2, 0}, {2, 1}};
  EXPECT_EQ(order, expected);
}

TEST(Study, AFolderIsOfOneKindOnly) {
  const TemporaryFolder folder;
  run_study({}, {.kind = "sweep", .folder = folder / "study"});
  run_study({}, {.kind = "sweep", .folder = folder / "study"});
  const auto other = [&](const char* name) {
    return test::expect_error(ExitCode::kUsage,
                              [&] { run_study({}, {.kind = "comparison", .folder = folder / name}); });
  };
  EXPECT_TRUE(test::holds(other("study").what(), "holds a sweep, not a comparison"));
  folder.write("run/recipe.yaml", "");
  EXPECT_TRUE(test::holds(other("run").what(), "holds a run, not a comparison"));
  EXPECT_FALSE(std::filesystem::exists(folder / "run" / "results"));
  folder.write("torn/study.json", "{");
  EXPECT_TRUE(test::holds(other("torn").what(), "holds a damaged study"));
}

}  // namespace
}  // namespace autotrain
