#include "lr/lr_page.h"

#include <algorithm>

#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "lr/lr_columns.h"
#include "lr/lr_json.h"
#include "lr/race_page.h"

namespace autotrain {
namespace {

constexpr double kShown = 1.5;  // times the loss at the start, up to which losses are drawn

// The spread of a column over the stretches; null: it has none.
const std::optional<RateSpread>* spread_in(const RateSuggestion& found, const std::string& column) {
  if (column == "edge") return &found.edge;
  if (column == "steepest") return &found.steepest;
  return column == "valley_end" ? &found.valley_end : nullptr;
}

std::vector<std::string> summary_row(const std::string& name, const RateSuggestion& found,
                                     double RateSpread::*figure) {
  std::vector<std::string> row = {name};
  for (const Column<RateStretch>& column : stretch_columns()) {
    if (column.heading.empty()) continue;
    const std::optional<RateSpread>* const rates = spread_in(found, column.name);
    row.push_back(rates == nullptr ? "" : *rates ? brief((**rates).*figure, kRateDigits) : "-");
  }
  return row;
}

page::Chart chart_of(const LearningRateTest& test) {
  page::Chart chart{.title = "loss of the window after each update, while the learning rate grows",
                    .x = {{.label = cat("learning rate at ", test.plan.effective_batch, " samples an update"),
                           .log = true}},
                    .y = {.label = "loss"}};
  for (size_t i = 0; i < test.stretches.size(); ++i) {
    page::Series series{.name = cat("stretch ", i + 1), .x = {{}}, .smoothable = true, .colour = i};
    for (const RatePoint& point : shown_points(test.stretches[i])) {
      series.x[0].push_back(point.lr);
      series.y.push_back(point.loss);
    }
    chart.series.push_back(std::move(series));
    for (const auto& [name, rate] : {std::pair{"edge", test.stretches[i].edge},
                                     {"steepest", test.stretches[i].steepest},
                                     {"valley's end", test.stretches[i].valley_end}}) {
      if (rate) chart.marks.push_back({{*rate}, cat(name, " ", i + 1), i});
    }
  }
  if (test.suggestion.lr) chart.marks.push_back({{*test.suggestion.lr}, "suggestion", test.stretches.size()});
  return chart;
}

page::Table held_table(const LearningRateTest& test) {
  page::Table table{.title = "Rates that were held, in the order of the trials",
                    .header = {"stretch", "learning rate", "training"}};
  for (size_t i = 0; i < test.stretches.size(); ++i) {
    for (const HeldRate& held : test.stretches[i].held) {
      table.rows.push_back(
          {cat(i + 1), brief(held.lr, kRateDigits), held.diverged ? "diverged" : "did not diverge"});
    }
  }
  return table;
}

page::Section test_section(const LearningRateTest& test) {
  page::Section section{.title = "Range test",
                        .paragraphs = {answer_of(test)},
                        .charts = {chart_of(test)},
                        .tables = {table_of(test)}};
  for (std::string& note : notes_of(test)) section.paragraphs.push_back(std::move(note));
  return section;
}

}  // namespace

page::Table table_of(const LearningRateTest& test) {
  page::Table table{.header = headings_of(stretch_columns())};
  table.header.insert(table.header.begin(), "stretch");
  for (const RateStretch& stretch : test.stretches) {
    std::vector<std::string>& row = table.rows.emplace_back(table_row(stretch_columns(), stretch));
    row.insert(row.begin(), cat(table.rows.size()));
  }
  table.rows.push_back(summary_row("mean", test.suggestion, &RateSpread::mean));
  table.rows.push_back(summary_row("greatest ÷ least", test.suggestion, &RateSpread::spread));
  return table;
}

std::string answer_of(const LearningRateTest& test) {
  const RateSuggestion& found = test.suggestion;
  const LearningRatePlan& lr = test.plan.lr;
  if (!found.lr) return "undetermined: " + found.why_not;
  const std::string rate = brief(*found.recipe_lr, kRateDigits);
  const std::string line = cat("optimizer: {lr: ", rate, ", reference_batch: ", lr.reference_batch, "}  # ",
                               shortest(lr.base), " → ", rate);
  if (lr.scaled == lr.base) return line;
  return cat(line, "; ", brief(*found.lr, kRateDigits), " at ", test.plan.effective_batch,
             " samples an update, by batch.lr_rule: ", lr.rule);
}

std::vector<std::string> notes_of(const LearningRateTest& test) {
  std::vector<std::string> notes = {
      cat("rates are those of an update of ", test.plan.effective_batch, " samples, where the recipe has ",
          brief(test.plan.lr.scaled, kRateDigits), "; warm-up and schedule are not applied")};
  if (test.clip_norm) {
    notes.push_back(cat("gradients are clipped to ", shortest(*test.clip_norm),
                        ", as in the recipe, which hides divergence: --set optimizer.clip_norm=null shows "
                        "the edge without"));
  }
  double times = 0;
  for (const RateStretch& stretch : test.stretches)
    times = std::max(times, times_read(stretch, test.reading()));
  if (times >= 2) {
    notes.push_back(cat("in a stretch each of the ", test.samples, " samples was read up to ",
                        brief(times, 2), " times: a loss may fall because they are known by then"));
  }
  notes.push_back(
      "a range test sees some updates, not a run: autotrain lr --race trains such rates and compares them "
      "(docs/learning_rate.md)");
  return notes;
}

std::vector<RatePoint> shown_points(const RateStretch& stretch) {
  std::vector<RatePoint> shown;
  for (const RatePoint& point : stretch.points) {
    if (stretch.start_loss <= 0 || point.loss <= kShown * stretch.start_loss) shown.push_back(point);
  }
  return shown;
}

page::Page page_of(const LearningRateReport& report) {
  page::Page page{.title = "Learning rate of " + report.name};
  if (report.race) page.sections.push_back(section_of(*report.race));
  if (!report.test) return page;
  const LearningRateTest& test = *report.test;
  page.subtitle =
      cat(test.updates > 0 ? cat("from the weights after update ", test.updates) : "from the first weights",
          " · ", summary_line(test.plan));
  page.sections.push_back(test_section(test));
  page.sections.push_back({.title = "Held rates", .tables = {held_table(test)}, .open = false});
  return page;
}

void write_learning_rate(const LearningRateReport& report, const std::filesystem::path& folder) {
  make_folders(folder);
  write_file_atomically(folder / "lr.json", text_of_json(to_json(report)));
  write_file_atomically(folder / "lr.html", render(page_of(report)));
}

}  // namespace autotrain
