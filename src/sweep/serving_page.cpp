#include "sweep/serving_page.h"

#include <functional>
#include <limits>

#include "base/text.h"
#include "base/units.h"
#include "sweep/serving_columns.h"
#include "sweep/subtitle.h"
#include "sweep/sweep_files.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

using Figure = std::function<double(const ServingPoint&)>;

double or_gap(const std::optional<double>& value) {
  return value.value_or(std::numeric_limits<double>::quiet_NaN());
}

// A curve over rates for each way of serving, of the points that have the figure.
void add_curves(const ServingSweep& sweep, const Figure& figure, page::Draw draw, const std::string& suffix,
                page::Chart& chart) {
  size_t colour = 0;
  for (const ServingVariant& variant : sweep.variants) {
    for (const ServingLine& line : variant.lines) {
      page::Series series{
          .name = cat(sweep.key.empty() ? "" : variant.value + ", ", words_of(line.serving), suffix),
          .x = {{}},
          .draw = draw,
          .colour = colour++};
      for (const ServingPoint& p : line.points) {
        if (!p.failure.empty()) continue;
        series.x[0].push_back(p.rate);
        series.y.push_back(figure(p));
      }
      chart.series.push_back(std::move(series));
    }
  }
}

// What was simulated beside a percentile; null: nothing is.
Figure simulated_beside(const std::string& column) {
  if (column == "p50_seconds") return [](const ServingPoint& p) { return or_gap(p.simulated_p50); };
  if (column == "p99_seconds") return [](const ServingPoint& p) { return or_gap(p.simulated_p99); };
  return nullptr;
}

std::vector<page::Chart> serving_charts(const ServingSweep& sweep) {
  std::vector<page::Chart> charts;
  for (const Column<ServingPoint>& column : serving_columns()) {
    if (!column.plot) continue;
    page::Chart chart{.title = column.plot->title,
                      .x = {{.label = "rate of arrivals (samples/s)", .log = true}},
                      .y = y_axis(*column.plot, column.unit)};
    add_curves(
        sweep, [&](const ServingPoint& p) { return number_of(column.value(p)); }, page::Draw::kLineAndPoints,
        "", chart);
    if (const Figure simulated = simulated_beside(column.name)) {
      add_curves(sweep, simulated, page::Draw::kDashed, ", simulated", chart);
      if (sweep.latency_ms)
        chart.ranges.push_back({*sweep.latency_ms / 1e3, *sweep.latency_ms / 1e3, "the bound"});
    }
    charts.push_back(std::move(chart));
  }
  return charts;
}

std::string verdict_of(const ServingPoint& p) {
  if (!p.failure.empty()) return p.failure;
  return p.unstable ? cat("unstable: ", p.backlog, " in the queue at the end") : "";
}

std::string servers_cell(const Serving& serving) {
  std::string words =
      serving.servers == 1 ? "1" : cat(serving.servers, serving.processes ? " processes" : " threads");
  return serving.load_ahead ? words + ", loading ahead" : words;
}

std::vector<std::string> first_cells(const Serving& serving) {
  return {cat(serving.most), shortest(serving.window_ms), servers_cell(serving)};
}

}  // namespace

page::Table serving_cells(const ServingVariant& variant) {
  page::Table table{.header = {"batch ≤", "window ms", "servers", "rate"}};
  for (std::string& heading : headings_of(serving_columns())) table.header.push_back(std::move(heading));
  table.header.emplace_back("");
  for (const ServingLine& line : variant.lines) {
    for (const ServingPoint& p : line.points) {
      std::vector<std::string> row = first_cells(line.serving);
      row.push_back(format_rate(p.rate));
      const std::vector<std::string> cells =
          p.failure.empty() ? table_row(serving_columns(), p)
                            : std::vector<std::string>(headings_of(serving_columns()).size(), "-");
      row.insert(row.end(), cells.begin(), cells.end());
      row.push_back(verdict_of(p));
      table.rows.push_back(std::move(row));
    }
  }
  return table;
}

page::Table line_cells(const ServingSweep& sweep, const ServingVariant& variant) {
  page::Table table{.header = {"batch ≤", "window ms", "servers", "capacity/s"}};
  if (sweep.latency_ms) {
    const std::string bound = cat("holds ", shortest(*sweep.latency_ms), " ms at");
    table.header.insert(table.header.end(), {bound, cat("p", brief(sweep.percentile, 5), " ms there")});
  }
  for (const ServingLine& line : variant.lines) {
    std::vector<std::string> row = first_cells(line.serving);
    row.push_back(line.capacity ? format_rate(*line.capacity) : "-");
    if (sweep.latency_ms) {
      const ServingPoint* const held = held_point(sweep, line);
      row.push_back(held == nullptr ? "-" : format_rate(held->rate));
      row.push_back(held == nullptr ? "-" : milliseconds(*held->asked));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

page::Page serving_page(const ServingSweep& sweep) {
  page::Section summary{.title = "What holds under load"};
  page::Section points{.title = "Points"};
  for (const ServingVariant& variant : sweep.variants) {
    page::Table said{.title = label_of(sweep, variant)};
    for (const std::string& sentence : sentences_of(sweep, variant)) said.rows.push_back({sentence});
    summary.tables.push_back(std::move(said));
    page::Table lines = line_cells(sweep, variant), cells = serving_cells(variant);
    lines.title = cells.title = label_of(sweep, variant);
    summary.tables.push_back(std::move(lines));
    points.tables.push_back(std::move(cells));
  }
  return {.title = cat("Sweep of ", sweep.name, ": under load"),
          .subtitle = subtitle_of(sweep),
          .sections = {std::move(summary),
                       {.title = "Rate and time", .charts = serving_charts(sweep)},
                       std::move(points)}};
}

std::vector<fs::path> write_serving(const ServingSweep& sweep, const fs::path& folder) {
  return write_sweep_files(folder, "serving", to_json(sweep), to_csv(sweep), serving_page(sweep));
}

bool is_serving_folder(const fs::path& folder) {
  return fs::exists(folder / "serving.json");
}

std::vector<fs::path> draw_serving(const fs::path& folder) {
  return draw_again(
      folder / "serving.json", "sweep under load", "autotrain sweep --rate",
      [&](const nlohmann::ordered_json& json) { return write_serving(serving_from_json(json), folder); });
}

}  // namespace autotrain
