#include "sweep/decode_page.h"

#include <algorithm>
#include <functional>

#include "base/text.h"
#include "sweep/decode_columns.h"
#include "sweep/subtitle.h"
#include "sweep/sweep_files.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

using page::Chart;
using page::Draw;

std::vector<int64_t> contexts_of(const DecodeVariant& variant) {
  std::vector<int64_t> contexts;
  for (const DecodePoint& p : variant.points) {
    if (std::ranges::count(contexts, p.context) == 0) contexts.push_back(p.context);
  }
  std::ranges::sort(contexts);
  return contexts;
}

// A line over batches for each variant and context.
void add_lines(const DecodeSweep& sweep, const std::function<double(const DecodePoint&)>& y, Draw draw,
               const std::string& suffix, Chart& chart) {
  size_t colour = 0;
  for (const DecodeVariant& variant : sweep.variants) {
    for (const int64_t context : contexts_of(variant)) {
      page::Series series{
          .name = cat(sweep.key.empty() ? "" : variant.value + ", ", "context ", context, suffix),
          .x = {{}},
          .draw = draw,
          .colour = colour++};
      for (const DecodePoint& p : variant.points) {
        if (!p.failure.empty() || p.context != context) continue;
        series.x[0].push_back(static_cast<double>(p.batch));
        series.y.push_back(y(p));
      }
      chart.series.push_back(std::move(series));
    }
  }
}

std::vector<Chart> decode_charts(const DecodeSweep& sweep) {
  std::vector<Chart> charts;
  for (const Column<DecodePoint>& column : decode_columns()) {
    if (!column.plot) continue;
    Chart chart{.title = column.plot->title,
                .x = {{.label = "batch (sequences)", .log = true}},
                .y = y_axis(*column.plot, column.unit)};
    add_lines(
        sweep, [&](const DecodePoint& p) { return number_of(column.value(p)); }, Draw::kLineAndPoints, "",
        chart);
    if (column.name == "p50_seconds")
      add_lines(
          sweep, [](const DecodePoint& p) { return p.bound_seconds(); }, Draw::kDashed, ", bound", chart);
    charts.push_back(std::move(chart));
  }
  return charts;
}

}  // namespace

page::Table decode_cells(const DecodeVariant& variant) {
  page::Table table{.header = {"batch", "context"}};
  for (std::string& heading : headings_of(decode_columns())) table.header.push_back(std::move(heading));
  table.header.emplace_back("");
  for (const DecodePoint& p : variant.points) {
    std::vector<std::string> row = {cat(p.batch), cat(p.context)};
    const std::vector<std::string> cells =
        p.failure.empty() ? table_row(decode_columns(), p)
                          : std::vector<std::string>(headings_of(decode_columns()).size(), "-");
    row.insert(row.end(), cells.begin(), cells.end());
    row.push_back(!p.failure.empty() ? p.failure : p.is_bound_by_reading() ? "reads" : "computes");
    table.rows.push_back(std::move(row));
  }
  return table;
}

page::Table batching_cells(const DecodeSweep& sweep) {
  page::Table table{.header = {sweep.key.empty() ? "recipe" : sweep.key}};
  for (std::string& heading : headings_of(batching_columns())) table.header.push_back(std::move(heading));
  for (const DecodeVariant& variant : sweep.variants) {
    if (!variant.batching) continue;
    std::vector<std::string> row = {sweep.key.empty() ? sweep.name : variant.value};
    if (variant.batching->failure.empty()) {
      for (std::string& cell : table_row(batching_columns(), *variant.batching))
        row.push_back(std::move(cell));
    } else {
      row.push_back(variant.batching->failure);
      row.resize(table.header.size());
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

page::Page decode_page(const DecodeSweep& sweep) {
  page::Section summary{.title = "What a token takes"};
  page::Section points{.title = "Points"};
  for (const DecodeVariant& variant : sweep.variants) {
    page::Table said{.title = label_of(sweep, variant)};
    for (const std::string& sentence : sentences_of(variant)) said.rows.push_back({sentence});
    summary.tables.push_back(std::move(said));
    page::Table cells = decode_cells(variant);
    cells.title = label_of(sweep, variant);
    points.tables.push_back(std::move(cells));
  }
  page::Page page{.title = cat("Sweep of ", sweep.name, ": decoding"),
                  .subtitle = subtitle_of(sweep),
                  .sections = {std::move(summary),
                               {.title = "Batch and context", .charts = decode_charts(sweep)},
                               std::move(points)}};
  page::Table batching = batching_cells(sweep);
  if (!batching.rows.empty())
    page.sections.push_back({.title = "Requests of unequal lengths", .tables = {std::move(batching)}});
  return page;
}

std::vector<fs::path> write_decode(const DecodeSweep& sweep, const fs::path& folder) {
  return write_sweep_files(folder, "decode", to_json(sweep), to_csv(sweep), decode_page(sweep));
}

bool is_decode_folder(const fs::path& folder) {
  return fs::exists(folder / "decode.json");
}

std::vector<fs::path> draw_decode(const fs::path& folder) {
  return draw_again(
      folder / "decode.json", "sweep of decoding", "autotrain sweep --decode",
      [&](const nlohmann::ordered_json& json) { return write_decode(decode_from_json(json), folder); });
}

}  // namespace autotrain
