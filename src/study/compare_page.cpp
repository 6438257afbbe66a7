#include "study/compare_page.h"

#include <cmath>

#include "autotrain/error.h"
#include "base/files.h"
#include "base/text.h"
#include "report/json_text.h"
#include "study/compare_tables.h"

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

}  // namespace

page::Page comparison_page(const Comparison& c) {
  page::Page page{.title = "comparison of " + join(c.terms.recipes, ", "), .subtitle = c.terms.machine};
  page::Section section{.title = c.terms.figure, .charts = {curve_chart(c)}, .tables = tables_of(c)};
  for (const std::string& warning : c.terms.warnings)
    section.paragraphs.push_back("Not fair: " + warning + ".");
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
