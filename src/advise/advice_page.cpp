#include "advise/advice_page.h"

#include <algorithm>
#include <cmath>

#include "advise/advice_words.h"
#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "base/units.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

using Numbers = std::vector<double>;

std::string ratio_text(const std::optional<Ranged>& ranged) {
  return ranged ? ranged_text(*ranged) : "-";
}

std::string remark_on(const Advice& a, size_t i) {
  std::vector<std::string> remarks;
  if (i == a.batch.own) remarks.push_back("the run");
  if (i == a.batch.advised && i != a.batch.own) remarks.push_back("advised");
  if (a.batch.rows[i].effective == a.batch.knee) remarks.push_back("knee");
  return join(remarks, ", ");
}

page::Table size_table(const Advice& a) {
  page::Table table{"to the same loss, as parts of what the run's own batch needs; speed * not measured",
                    {"E", "micro-batch", "samples/s", "updates", "samples", "time", "peak memory", ""}};
  for (size_t i = 0; i < a.batch.rows.size(); ++i) {
    const BatchRow& row = a.batch.rows[i];
    table.rows.push_back({std::to_string(row.effective), cat(row.window, " × ", row.micro_batch),
                          format_rate(row.samples_per_second) + (row.measured ? "" : " *"),
                          ratio_text(row.updates), ratio_text(row.samples), ratio_text(row.seconds),
                          row.peak_bytes ? format_bytes(*row.peak_bytes) : "-", remark_on(a, i)});
  }
  return table;
}

page::Table device_table(const Advice& a) {
  page::Table table{"devices: time to the same loss, as a part of the run's",
                    {"devices", cat("at E = ", a.run.plan.effective_batch), "at the best E", "best E"}};
  const auto text = [](double seconds) { return std::isfinite(seconds) ? brief(seconds, 3) : "-"; };
  for (const DeviceRow& row : a.batch.devices)
    table.rows.push_back({std::to_string(row.devices), text(row.seconds_at_own), text(row.seconds_at_best),
                          std::to_string(row.best_effective)});
  return table;
}

page::Table branch_table(const Advice& a) {
  page::Table table{
      "branches at equal samples",
      {"E", "×", "training loss", "− own", "p worse", "p not worse", "p no better", "failed", ""}};
  if (!a.verification) return table;
  const auto text = [](double value) { return std::isfinite(value) ? brief(value, 4) : "-"; };
  for (const BranchVerdict& v : a.verification->branches) {
    std::vector<std::string> losses;
    for (const double loss : v.losses.training) losses.push_back(text(loss));
    table.rows.push_back({std::to_string(v.losses.effective), brief(v.losses.factor),
                          losses.empty() ? "-" : join(losses, " "), text(v.difference), text(v.p_worse),
                          text(v.p_not_worse), text(v.p_no_better), std::to_string(v.losses.failed()),
                          to_string(v.verdict)});
  }
  return table;
}

page::Table line_table(const Advice& a) {
  page::Table table{"what goes with the change", {"key", "old", "new", "why"}};
  for (const RecipeLine& line : a.lines)
    table.rows.push_back({line.path, line.before, line.after, line.reason});
  return table;
}

void mark(page::Chart& chart, double x, const std::string& text) {
  chart.marks.push_back({{x}, text});
}

void add_marks(const Advice& a, page::Chart& chart) {
  mark(chart, static_cast<double>(a.run.plan.effective_batch), "the run");
  mark(chart, static_cast<double>(a.batch.knee), "knee");
  if (a.verification && a.verification->critical > 0)
    mark(chart, static_cast<double>(a.verification->critical), "measured critical batch");
  const std::optional<NoiseScale> noise = a.run.noise_of_whole_run();
  if (!noise) return;
  mark(chart, noise->low, noise->samples ? "B, from" : "B at least");
  if (noise->samples) mark(chart, *noise->samples, "B");
  if (noise->high) mark(chart, *noise->high, "B, to");
}

page::Axis batch_axis() {
  return {.label = "effective batch E (samples)", .log = true};
}

page::Series ratio_series(const Advice& a, const char* name, std::optional<Ranged> BatchRow::*ratio) {
  page::Series series{.name = name,
                      .x = {{}},
                      .band = {"interval, from", "interval, to"},
                      .draw = page::Draw::kLineAndPoints};
  for (const BatchRow& row : a.batch.rows) {
    const Ranged& ranged = *(row.*ratio);
    series.x[0].push_back(static_cast<double>(row.effective));
    series.y.push_back(ranged.value.value_or((ranged.low + ranged.high) / 2));
    series.low.push_back(ranged.low);
    series.high.push_back(ranged.high);
  }
  return series;
}

page::Chart ratio_chart(const Advice& a) {
  page::Chart chart{
      .title = "to the same loss, as parts of what the run's own batch needs; shaded: the interval",
      .x = {batch_axis()},
      .y = {.label = "÷ the run's", .log = true}};
  chart.series = {ratio_series(a, "time", &BatchRow::seconds), ratio_series(a, "samples", &BatchRow::samples),
                  ratio_series(a, "updates", &BatchRow::updates)};
  add_marks(a, chart);
  return chart;
}

page::Chart speed_chart(const Advice& a) {
  page::Chart chart{.title = "speed (samples/s)", .x = {batch_axis()}, .y = {.label = "samples/s"}};
  page::Series series{.name = "samples/s", .x = {{}}, .draw = page::Draw::kLineAndPoints};
  for (const BatchRow& row : a.batch.rows) {
    series.x[0].push_back(static_cast<double>(row.effective));
    series.y.push_back(row.samples_per_second);
    series.labels.push_back(
        cat(row.window, " × ", row.micro_batch, row.measured ? ", measured" : ", not measured"));
  }
  chart.series = {std::move(series)};
  add_marks(a, chart);
  return chart;
}

page::Chart branch_chart(const Advice& a) {
  page::Chart chart{.title = "smoothed training loss of the branches at equal samples",
                    .x = {batch_axis()},
                    .y = {.label = "loss"}};
  page::Series series{.name = "each seed", .x = {{}}, .draw = page::Draw::kPoints};
  for (const BranchVerdict& v : a.verification->branches) {
    for (const double loss : v.losses.training) {
      if (!std::isfinite(loss)) continue;
      series.x[0].push_back(static_cast<double>(v.losses.effective));
      series.y.push_back(loss);
    }
  }
  chart.series = {std::move(series)};
  add_marks(a, chart);
  return chart;
}

page::Section change_section(const Advice& a) {
  page::Section section{.title = "What goes with the change", .tables = {line_table(a)}};
  const BatchPlan& plan = a.run.plan;
  const int64_t to = a.batch.rows[a.batch.advised].effective;
  section.paragraphs = remarks_on(a.run.recipe, {plan.effective_batch, to, plan.lr.scaled});
  section.listings.push_back({"to be merged into the recipe", yaml_of(a.lines)});
  return section;
}

}  // namespace

std::vector<page::Table> tables_of(const Advice& a) {
  std::vector<page::Table> tables = {size_table(a), device_table(a), branch_table(a)};
  std::erase_if(tables, [](const page::Table& table) { return table.rows.empty(); });
  return tables;
}

page::Page advice_page(const Advice& a) {
  page::Page page{.title = "advice on the batch of " + a.run.recipe.name,
                  .subtitle = cat(a.run.plan.device_name, " · E = ", a.run.plan.effective_batch, " · ",
                                  format_count(a.run.updates), " updates, ", format_count(a.run.samples),
                                  " samples in ", format_seconds(a.run.seconds))};
  page::Section verdict{.title = "Verdict", .paragraphs = sentences_of(a), .tables = {size_table(a)}};
  if (a.run.noise) verdict.charts.push_back(ratio_chart(a));
  verdict.charts.push_back(speed_chart(a));
  page.sections.push_back(std::move(verdict));
  if (!a.lines.empty()) page.sections.push_back(change_section(a));
  if (a.verification)
    page.sections.push_back({.title = "Verified", .charts = {branch_chart(a)}, .tables = {branch_table(a)}});
  if (!a.batch.devices.empty()) page.sections.push_back({.title = "Devices", .tables = {device_table(a)}});
  return page;
}

std::vector<fs::path> write_advice(const Advice& advice, const fs::path& folder) {
  const fs::path json = folder / "advice.json", html = folder / "advice.html";
  make_folders(folder);
  write_file_atomically(json, text_of_json(advice_to_json(advice)));
  write_file_atomically(html, render(advice_page(advice)));
  return {json, html};
}

}  // namespace autotrain
