#include "compare/compare_page.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "autotrain/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "base/units.h"
#include "compare/compare_tables.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

// The mean over the seeds, with one standard deviation on either side.
page::Series curve_series(const std::string& label, size_t colour, const std::vector<BandPoint>& band) {
  page::Series series{.name = label,
                      .x = {{}, {}, {}},
                      .band = {"mean − deviation", "mean + deviation"},
                      .draw = page::Draw::kLineAndPoints,
                      .colour = colour};
  for (const BandPoint& point : band) {
    const double spread = std::isfinite(point.figure.deviation) ? point.figure.deviation : 0;
    series.x[0].push_back(static_cast<double>(point.samples));
    series.x[1].push_back(point.seconds);
    series.x[2].push_back(static_cast<double>(point.update));
    series.y.push_back(point.figure.mean);
    series.low.push_back(point.figure.mean - spread);
    series.high.push_back(point.figure.mean + spread);
  }
  return series;
}

page::Chart curve_chart(const Comparison& c) {
  page::Chart chart{
      .title = cat(c.terms.figure, " on the validation data: mean; shaded: ± one standard deviation"),
      .x = {{.label = "samples"},
            {.label = "training time", .format = page::Format::kSeconds},
            {.label = "updates"}},
      .y = {.label = c.terms.figure}};
  for (size_t i = 0; i < c.recipes.size(); ++i)
    chart.series.push_back(curve_series(c.terms.recipes[i], i, c.recipes[i].curve));
  if (c.terms.target && c.terms.target->figure == c.terms.figure)
    chart.ranges.push_back({c.terms.target->value, c.terms.target->value, "target"});
  return chart;
}

// Names a recipe by its differing keys other than the effective batch: "lr_rule linear".
std::string rest_of(const Comparison& c, size_t recipe) {
  std::vector<std::string> parts;
  for (const DifferingKey& key : c.terms.differing_keys) {
    if (key.path == "batch.effective") continue;
    const size_t dot = key.path.rfind('.');
    parts.push_back(cat(key.path.substr(dot == std::string::npos ? 0 : dot + 1), " ", key.values[recipe]));
  }
  return parts.empty() ? c.terms.figure : join(parts, ", ");
}

using SpreadOf = const Spread* (*)(const RecipeFigures& figures, const std::string& figure);

page::Chart batch_chart(const Comparison& c, const std::string& title, SpreadOf spread_of) {
  page::Chart chart{.title = title,
                    .x = {{.label = "effective batch (samples)", .log = true}},
                    .y = {.label = c.terms.figure}};
  std::map<std::string, std::map<double, Spread>> curves;  // by what else they differ in: by batch
  for (size_t i = 0; i < c.recipes.size(); ++i) {
    const RecipeFigures& r = c.recipes[i];
    const Spread* const spread = spread_of(r, c.terms.figure);
    if (r.plan.is_null() || spread == nullptr || spread->count == 0) continue;
    curves[rest_of(c, i)][r.plan.at("effective_batch").get<double>()] = *spread;
  }
  for (const auto& [name, curve] : curves) {
    page::Series series{.name = name,
                        .x = {{}},
                        .band = {"mean − deviation", "mean + deviation"},
                        .draw = page::Draw::kLineAndPoints,
                        .colour = chart.series.size()};
    for (const auto& [batch, spread] : curve) {
      const double deviation = std::isfinite(spread.deviation) ? spread.deviation : 0;
      series.x[0].push_back(batch);
      series.y.push_back(spread.mean);
      series.low.push_back(spread.mean - deviation);
      series.high.push_back(spread.mean + deviation);
    }
    chart.series.push_back(std::move(series));
  }
  return chart;
}

// The figure over effective batches, where recipes differ in them.
std::vector<page::Chart> batch_charts(const Comparison& c) {
  const auto is_batch = [](const DifferingKey& key) { return key.path == "batch.effective"; };
  if (std::ranges::none_of(c.terms.differing_keys, is_batch)) return {};
  std::vector<page::Chart> charts = {
      batch_chart(c,
                  cat(c.terms.figure, " after ", format_count(c.samples),
                      " samples, by effective batch; shaded: ± one "
                      "standard deviation"),
                  [](const RecipeFigures& r, const std::string&) { return &r.at_samples; }),
      batch_chart(c, cat("generalisation gap of ", c.terms.figure, " at the end, training set − validation"),
                  [](const RecipeFigures& r, const std::string& figure) -> const Spread* {
                    const auto gap = r.gaps.find(figure);
                    return gap == r.gaps.end() ? nullptr : &gap->second;
                  })};
  std::erase_if(charts, [](const page::Chart& chart) { return chart.series.empty(); });
  return charts;
}

std::string title_of(const Comparison& c) {
  constexpr size_t kMostNames = 4;
  if (c.terms.recipes.size() > kMostNames) return cat("comparison of ", c.terms.recipes.size(), " recipes");
  return "comparison of " + join(c.terms.recipes, ", ");
}

}  // namespace

page::Page comparison_page(const Comparison& c) {
  page::Page page{.title = title_of(c), .subtitle = c.terms.machine};
  const size_t planned = c.terms.recipes.size() * c.terms.seeds.size();
  if (c.runs.size() < planned) page.subtitle += cat(" · so far: ", c.runs.size(), " of ", planned, " runs");
  page::Section section{
      .title = c.terms.figure, .paragraphs = notes_of(c), .charts = {curve_chart(c)}, .tables = tables_of(c)};
  for (page::Chart& chart : batch_charts(c)) section.charts.push_back(std::move(chart));
  page.sections.push_back(std::move(section));
  return page;
}

std::vector<fs::path> write_comparison(const Comparison& comparison, const fs::path& folder) {
  const fs::path json = folder / "compare.json", csv = folder / "compare.csv", html = folder / "report.html";
  write_file_atomically(json, text_of_json(comparison_to_json(comparison), 1));
  write_file_atomically(csv, comparison_to_csv(comparison));
  write_file_atomically(html, render(comparison_page(comparison)));
  return {json, csv, html};
}

bool is_comparison_folder(const fs::path& folder) {
  return fs::exists(folder / "compare.json");
}

Comparison read_comparison(const fs::path& folder) {
  const fs::path path = folder / "compare.json";
  const std::string text = read_file(path);
  try {
    return comparison_from_json(nlohmann::ordered_json::parse(text));
  } catch (const nlohmann::json::exception& error) {
    throw Error(ExitCode::kBadData, path.string(), error.what(), "autotrain compare writes it anew");
  }
}

std::vector<fs::path> draw_comparison(const fs::path& folder) {
  return write_comparison(read_comparison(folder), folder);
}

}  // namespace autotrain
