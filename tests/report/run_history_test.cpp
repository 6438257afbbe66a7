#include "report/run_history.h"

#include <cmath>

#include "report/csv_file.h"
#include "report/metrics_file.h"
#include "report/run_page.h"
#include "support/support.h"

namespace autotrain {
namespace {

using test::TemporaryFolder;

TEST(RunHistory, HoldsEveryNumberOfEveryRow) {
  const TemporaryFolder folder;
  {
    MetricsFile file(folder / "metrics.jsonl", {});
    file.write(
        UpdateRecord{.update = 1, .samples = 32, .loss = 0.5, .activity_seconds = {{"forward", 0.25}}});
    file.write(UpdateRecord{.update = 2, .samples = 64, .loss = NAN, .activity_seconds = {{"forward", 0.5}}});
    file.write(EvaluationRecord{
        .update = 2, .epoch = 0.5, .split = "validation", .figures = {{"loss", 0.125}}, .samples = 9});
    file.write(EventRecord{.update = 2, .event = EventKind::kSkipped, .detail = "why"});
  }
  const RunHistory history = read_history(folder / "metrics.jsonl");
  ASSERT_EQ(history.updates.rows(), 2u);
  EXPECT_EQ(*history.updates.find("samples"), (std::vector<double>{32, 64}));
  EXPECT_EQ(*history.updates.find("activity_seconds.forward"), (std::vector<double>{0.25, 0.5}));
  EXPECT_TRUE(std::isnan(history.updates.find("loss")->at(1)));
  EXPECT_EQ(history.updates.find("kind"), nullptr);
  ASSERT_EQ(history.evaluations.size(), 1u);
  EXPECT_EQ(history.evaluations[0].figures, (std::map<std::string, double>{{"loss", 0.125}}));
  EXPECT_EQ(history.evaluations[0].samples, 9);
  ASSERT_EQ(history.events.size(), 1u);
  EXPECT_EQ(history.events[0].detail, "why");
}

TEST(RunHistory, RowsThatARollbackReplacedAreLeftOut) {
  const TemporaryFolder folder;
  {
    MetricsFile file(folder / "m", {});
    for (int64_t update = 1; update <= 5; ++update) file.write(UpdateRecord{.update = update, .loss = 1});
    file.write(EvaluationRecord{.update = 4, .split = "validation"});
    file.write(EventRecord{.update = 2, .event = EventKind::kRollback});
    for (int64_t update = 3; update <= 4; ++update) file.write(UpdateRecord{.update = update, .loss = 2});
  }
  const RunHistory history = read_history(folder / "m");
  EXPECT_EQ(*history.updates.find("update"), (std::vector<double>{1, 2, 3, 4}));
  EXPECT_EQ(*history.updates.find("loss"), (std::vector<double>{1, 1, 2, 2}));
  EXPECT_TRUE(history.evaluations.empty());
}

TEST(RunHistory, AnEvaluationThatAResumeMadeAgainCountsOnce) {
  const TemporaryFolder folder;
  {
    MetricsFile file(folder / "m", {});
    file.write(EvaluationRecord{.update = 4, .split = "validation", .seconds = 1});
    file.write(EvaluationRecord{.update = 4, .split = "test", .seconds = 2});
    file.write(EvaluationRecord{.update = 4, .split = "validation", .seconds = 3});
  }
  const RunHistory history = read_history(folder / "m");
  ASSERT_EQ(history.evaluations.size(), 2u);
  EXPECT_EQ(history.evaluations[0].seconds, 2);
  EXPECT_EQ(history.evaluations[1].seconds, 3);
}

TEST(RunHistory, AColumnThatComesLaterHasNoNumbersBefore) {
  const TemporaryFolder folder;
  folder.write("t", "{\"a\":1,\"b\":2}\n{\"b\":3,\"c\":4}\n[5]\n{\"a\":6,\"c");
  const Columns columns = read_columns(folder / "t");
  EXPECT_EQ(columns.names, (std::vector<std::string>{"a", "b", "c"}));
  ASSERT_EQ(columns.rows(), 2u);
  EXPECT_TRUE(std::isnan(columns.values[0][1]));
  EXPECT_TRUE(std::isnan(columns.values[2][0]));
  EXPECT_EQ(columns.values[2][1], 4);
}

TEST(CsvFile, QuotesByRfc4180) {
  EXPECT_EQ(csv_line({"a", "b c", "", "1.5"}), "a,b c,,1.5\r\n");
  EXPECT_EQ(csv_line({"a,b", "say \"x\"", "two\nlines", "cr\r"}),
            "\"a,b\",\"say \"\"x\"\"\",\"two\nlines\",\"cr\r\"\r\n");
}

TEST(CsvFile, TextIsNoFormulaAndNumbersStayNumbers) {
  EXPECT_EQ(csv_line({"=1+1", "+x", "-x", "@SUM(A1)", "a=1"}), "'=1+1,'+x,'-x,'@SUM(A1),a=1\r\n");
  EXPECT_EQ(csv_line({"-1.5", "-1e-05", "+3", "-"}), "-1.5,-1e-05,+3,'-\r\n");
}

TEST(CsvFile, BytesThatAreNoUtf8BecomeTheReplacementCharacter) {
  EXPECT_EQ(csv_line({"caf\xe9", "caf\xc3\xa9"}), "caf\xef\xbf\xbd,caf\xc3\xa9\r\n");
}

TEST(CsvFile, NumbersReadBackEqual) {
  EXPECT_EQ(csv_number(1'000'000), "1000000");
  EXPECT_EQ(csv_number(NAN), "");
  for (const double value : {0.1, 1e-300, 1.0 / 3, -2.5e17}) EXPECT_EQ(std::stod(csv_number(value)), value);
}

TEST(CsvFile, AnUnfinishedFileReplacesNothing) {
  const TemporaryFolder folder;
  folder.write("t.csv", "before");
  { CsvFile(folder / "t.csv", {"a"}).add_row({"1"}); }
  EXPECT_EQ(test::slurp(folder / "t.csv"), "before");
  CsvFile file(folder / "t.csv", {"a"});
  file.add_row({"1"});
  file.finish();
  EXPECT_EQ(test::slurp(folder / "t.csv"), "a\r\n1\r\n");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

std::string all_text(const page::Page& page) {
  std::string text = page.title + "\n" + page.subtitle + "\n";
  for (const page::Section& section : page.sections) {
    text += section.title + "\n";
    for (const std::string& paragraph : section.paragraphs) text += paragraph + "\n";
    for (const page::Table& table : section.tables) {
      for (const auto& row : table.rows) {
        for (const std::string& cell : row) text += cell + "\n";
      }
    }
    for (const page::Listing& listing : section.listings) text += listing.text + "\n";
  }
  return text;
}

TEST(RunPage, SaysWhatAFolderLacks) {
  const TemporaryFolder folder;
  folder.write("plan.json", "{\"device\": ");
  folder.write("summary.json", "[]");
  const page::Page page = run_page(folder.path(), {}, {});
  for (const char* const part : {"no readable plan.json", "no readable summary.json",
                                 "No update is on record", "No telemetry", "no recipe.yaml", "No trial"})
    EXPECT_TRUE(test::holds(all_text(page), part));
  EXPECT_FALSE(render(page).empty());
}

TEST(RunPage, FieldsOfOtherTypesAreNotShown) {
  const TemporaryFolder folder;
  folder.write(
      "plan.json",
      R"({"budget_bytes": "x", "target": [1], "search": {"probes": [7, {"micro_batch": null, "peak_bytes": 5}]}})");
  folder.write("summary.json",
               R"({"status": 3, "final": [1, "x"], "best": {"loss": {}}, "activity_seconds": {"a": "b"}})");
  folder.write("metrics.jsonl",
               "{\"kind\":\"update\",\"update\":\"x\"}\n{\"kind\":\"evaluation\"}\n{\"kind\":\"event\"}\n{"
               "\"kind\":1}\n");
  EXPECT_FALSE(render(run_page(folder.path(), read_history(folder / "metrics.jsonl"), {})).empty());
}

TEST(RunPage, GivesCommandsThatAShellReadsAsTheyAreMeant) {
  const TemporaryFolder parent;
  const std::filesystem::path folder = parent / "it's a run";
  std::filesystem::create_directory(folder);
  const std::string text = all_text(run_page(folder, {}, {}));
  EXPECT_TRUE(test::holds(text, "/it'\\''s a run/recipe.yaml'"));
}

}  // namespace
}  // namespace autotrain
