#include "compare/compare_page.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>

#include "autotrain/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "base/units.h"
#include "compare/compare_exports.h"
#include "compare/compare_tables.h"
#include "compare/over_tasks.h"

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

// Names a recipe by what it has beside its effective batch: "linear", "lr_rule linear".
std::string rest_of(const Comparison& c, size_t recipe, const std::string& leaving_out) {
  if (!c.terms.axes.empty()) {
    const std::string rest = rest_of_axes(c, recipe, leaving_out);
    return rest.empty() ? c.terms.figure : rest;
  }
  std::vector<std::string> parts;
  for (const DifferingKey& key : c.terms.differing_keys) {
    if (key.path == leaving_out) continue;
    const size_t dot = key.path.rfind('.');
    parts.push_back(cat(key.path.substr(dot == std::string::npos ? 0 : dot + 1), " ", key.values[recipe]));
  }
  return parts.empty() ? c.terms.figure : join(parts, ", ");
}

constexpr const char* kBatch = "batch.effective";

// A number above 0, which a logarithmic axis can show.
std::optional<double> positive_number(const std::string& text) {
  double value = 0;
  const bool good = parse_real(text, value) && value > 0;
  return good ? std::optional(value) : std::nullopt;
}

bool numeric(const DifferingKey& key) {
  return std::ranges::all_of(key.values,
                             [](const std::string& text) { return positive_number(text).has_value(); });
}

// Where a recipe stands on a key's axis; of the batch, what its runs had, which may have been found.
std::optional<double> value_on(const DifferingKey& key, const Comparison& c, size_t recipe) {
  const auto& plan = c.recipes[recipe].plan;
  if (key.path == kBatch && !plan.is_null()) return plan.at("effective_batch").get<double>();
  return positive_number(key.values[recipe]);
}

// The key that figures are drawn over: the effective batch, else the first axis of numbers; null: there is
// none.
const DifferingKey* drawn_over(const Comparison& c) {
  const auto& differing = c.terms.differing_keys;
  const auto batch = std::ranges::find(differing, kBatch, &DifferingKey::path);
  if (batch != differing.end()) return &*batch;
  const auto axis = std::ranges::find_if(
      c.terms.axes, [](const DifferingKey& key) { return key.values.size() > 1 && numeric(key); });
  return axis == c.terms.axes.end() ? nullptr : &*axis;
}

using SpreadOf = std::function<const Spread*(const RecipeFigures& figures)>;

page::Chart chart_over(const Comparison& c, const DifferingKey& key, const std::string& title,
                       const SpreadOf& spread_of) {
  const bool batch = key.path == kBatch;
  page::Chart chart{.title = title,
                    .x = {{.label = batch ? "effective batch (samples)" : key.path, .log = true}},
                    .y = {.label = c.terms.figure}};
  std::map<std::string, std::map<double, Spread>> curves;  // by what else they differ in: by the key's value
  for (size_t i = 0; i < c.recipes.size(); ++i) {
    const Spread* const spread = spread_of(c.recipes[i]);
    const std::optional<double> value = value_on(key, c, i);
    if (spread == nullptr || spread->count == 0 || !value) continue;
    curves[rest_of(c, i, key.path)][*value] = *spread;
  }
  for (const auto& [name, curve] : curves) {
    page::Series series{.name = name,
                        .x = {{}},
                        .band = {"mean − deviation", "mean + deviation"},
                        .draw = page::Draw::kLineAndPoints,
                        .colour = chart.series.size()};
    for (const auto& [value, spread] : curve) {
      const double deviation = std::isfinite(spread.deviation) ? spread.deviation : 0;
      series.x[0].push_back(value);
      series.y.push_back(spread.mean);
      series.low.push_back(spread.mean - deviation);
      series.high.push_back(spread.mean + deviation);
    }
    chart.series.push_back(std::move(series));
  }
  return chart;
}

// The figure over effective batches or another axis, where there is one.
std::vector<page::Chart> charts_over_a_key(const Comparison& c) {
  const DifferingKey* const key = drawn_over(c);
  if (key == nullptr) return {};
  const std::string by = key->path == kBatch ? "effective batch" : key->path;
  std::vector<page::Chart> charts;
  for (const FairAxis axis : {FairAxis::kSamples, FairAxis::kTrainingLoss}) {
    charts.push_back(chart_over(
        c, *key,
        cat(c.terms.figure, " ", place_text(c, axis), ", by ", by, "; shaded: ± one standard deviation"),
        [axis](const RecipeFigures& r) { return &spread_on(r, axis); }));
  }
  charts.push_back(chart_over(
      c, *key, cat("generalisation gap of ", c.terms.figure, " at the end, training set − validation"),
      [&](const RecipeFigures& r) -> const Spread* {
        const auto gap = r.gaps.find(c.terms.figure);
        return gap == r.gaps.end() ? nullptr : &gap->second;
      }));
  std::erase_if(charts, [](const page::Chart& chart) { return chart.series.empty(); });
  return charts;
}

// The share of runs that come to a figure, for every figure there is: more than a mean says where runs spread
// or fail. A run without a value comes to none.
std::vector<page::Chart> performance_profile(const Comparison& c) {
  constexpr int64_t kLeastRuns = 3;
  page::Chart chart{
      .title = cat("performance profile: share of runs that come to this ", c.terms.figure, " ",
                   place_text(c, FairAxis::kSamples), task_axis(c) == nullptr ? "" : ", over all tasks"),
      .x = {{.label = c.terms.figure}},
      .y = {.label = "runs", .format = page::Format::kPercent}};
  for (const TaskGroup& group : groups_over_tasks(c)) {
    if (group.runs < kLeastRuns || group.counted() == 0) continue;
    std::vector<double> values;
    for (const auto& task : group.values) values.insert(values.end(), task.begin(), task.end());
    std::ranges::sort(values);
    page::Series series{
        .name = group.label, .x = {{}}, .draw = page::Draw::kLineAndPoints, .colour = chart.series.size()};
    for (size_t i = 0; i < values.size(); ++i) {
      const size_t come = c.terms.lower_is_better ? i + 1 : values.size() - i;
      series.x[0].push_back(values[i]);
      series.y.push_back(static_cast<double>(come) / static_cast<double>(group.runs));
    }
    chart.series.push_back(std::move(series));
  }
  if (chart.series.empty()) return {};
  return {std::move(chart)};
}

// What a reader needs to make it again.
std::vector<page::Section> again_section(const Comparison& c) {
  const Provenance& made = c.terms.provenance;
  if (made.date.empty()) return {};
  page::Section section{
      .title = "Again",
      .paragraphs = {
          cat("Written ", made.date, " by autotrain ", made.program,
              c.terms.machine.empty() ? "" : cat(", on ", c.terms.machine),
              ". compare.json holds every number that this page shows, curves.csv every evaluation, "
              "compare.md and compare.tex the tables.")}};
  if (!made.command.empty())
    section.listings.push_back({"the command, which goes on with the same folder", made.command});
  page::Table table{"data, by their fingerprints", {"recipe", "data", "fingerprint"}};
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> recipes;  // by what they read
  for (size_t i = 0; i < made.data.size() && i < c.terms.recipes.size(); ++i) {
    for (const auto& [set, fingerprint] : made.data[i])
      recipes[{set, fingerprint.empty() ? "made from the recipe" : fingerprint}].push_back(
          c.terms.recipes[i]);
  }
  for (const auto& [read, by] : recipes)
    table.rows.push_back(
        {by.size() == c.terms.recipes.size() ? "all" : join(by, ", "), read.first, read.second});
  if (!table.rows.empty()) section.tables.push_back(std::move(table));
  return {std::move(section)};
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
  for (page::Chart& chart : charts_over_a_key(c)) section.charts.push_back(std::move(chart));
  for (page::Chart& chart : performance_profile(c)) section.charts.push_back(std::move(chart));
  page.sections.push_back(std::move(section));
  for (page::Section& again : again_section(c)) page.sections.push_back(std::move(again));
  return page;
}

std::vector<fs::path> write_comparison(const Comparison& comparison, const fs::path& folder) {
  const fs::path json = folder / "compare.json", csv = folder / "compare.csv", html = folder / "report.html";
  write_file_atomically(json, text_of_json(comparison_to_json(comparison), 1));
  write_file_atomically(csv, comparison_to_csv(comparison));
  write_file_atomically(html, render(comparison_page(comparison)));
  const fs::path markdown = folder / "compare.md", latex = folder / "compare.tex",
                 curves = folder / "curves.csv";
  write_file_atomically(markdown, comparison_to_markdown(comparison));
  write_file_atomically(latex, comparison_to_latex(comparison));
  write_file_atomically(curves, curves_to_csv(comparison));
  return {json, csv, html, markdown, latex, curves};
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
