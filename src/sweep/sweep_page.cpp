#include "sweep/sweep_page.h"

#include <algorithm>
#include <limits>
#include <ranges>

#include "base/text.h"
#include "base/units.h"
#include "recipe/recipe_enums.h"
#include "sweep/subtitle.h"
#include "sweep/sweep_columns.h"
#include "sweep/sweep_files.h"
#include "sweep/sweep_tables.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

using page::Chart;
using page::Draw;
using page::Format;
using page::Series;

page::Axis log_axis(const std::string& label, Format format = Format::kNumber) {
  return {.label = label, .log = true, .format = format};
}

Series series_of(const Sweep& sweep, size_t index, const Column<SweepPoint>& column) {
  const SweepVariant& variant = sweep.variants[index];
  Series series{.name = label_of(sweep, variant), .x = {{}}, .draw = Draw::kLineAndPoints, .colour = index};
  for (const SweepPoint& point : variant.points) {
    if (!point.failure.empty()) continue;
    series.x[0].push_back(static_cast<double>(point.batch));
    series.y.push_back(number_of(column.value(point)));
  }
  return series;
}

Chart chart_of(const Sweep& sweep, const Column<SweepPoint>& column) {
  Chart chart{.title = column.plot->title,
              .x = {log_axis("batch (samples)")},
              .y = y_axis(*column.plot, column.unit)};
  for (size_t i = 0; i < sweep.variants.size(); ++i) chart.series.push_back(series_of(sweep, i, column));
  return chart;
}

// The edges of the roofline over the batches that were measured: whichever of reading the weights and
// computing takes longer.
Series edge_of(const Sweep& sweep, size_t index) {
  const SweepVariant& v = sweep.variants[index];
  Series edge{.name = label_of(sweep, v) + ", roofline", .x = {{}}, .draw = Draw::kDashed, .colour = index};
  for (const SweepPoint& point : v.points) {
    const auto batch = static_cast<double>(point.batch);
    edge.x[0].push_back(batch);
    edge.y.push_back(std::max(v.weight_bytes / v.roof.bytes_per_second,
                              batch * v.flops_per_sample / v.roof.flops_per_second));
  }
  return edge;
}

// A knee as a vertical line; at the edge of the plot where it lies far outside of what was measured.
page::Mark mark_of(const SweepVariant& v, size_t colour, double batch, const std::string& text) {
  const auto [first, last] = std::ranges::minmax(v.points | std::views::transform(&SweepPoint::batch));
  const double least = static_cast<double>(first) / 2, most = static_cast<double>(last) * 2;
  const char* const where = batch < least ? "← " : batch > most ? "→ " : "";
  return {{std::clamp(batch, least, most)}, where + text, colour};
}

void add_knees(const Sweep& sweep, Chart& chart) {
  for (size_t i = 0; i < sweep.variants.size(); ++i) {
    const SweepVariant& v = sweep.variants[i];
    if (v.points.empty()) continue;
    const std::string name = sweep.key.empty() ? "" : v.value + " ";
    if (v.predicted > 0) {
      chart.marks.push_back(mark_of(v, i, v.predicted, cat(name, "predicted ", brief(v.predicted, 3))));
    }
    if (v.knee) {
      chart.marks.push_back(mark_of(v, i, v.knee->batch, cat(name, "knee ", knee_text(*v.knee))));
    }
  }
}

// Beside the median latency the 99th percentile, the roofline's edges and the knees.
void complete_latency_chart(const Sweep& sweep, Chart& chart) {
  for (size_t i = 0; i < sweep.variants.size(); ++i) {
    Series& series = chart.series[i];
    series.band = {"p50", "p99"};
    for (const SweepPoint& p : sweep.variants[i].points) {
      if (!p.failure.empty()) continue;
      series.low.push_back(p.p50_seconds);
      series.high.push_back(p.p99_seconds);
    }
  }
  for (size_t i = 0; i < sweep.variants.size(); ++i) {
    if (sweep.variants[i].predicted > 0) chart.series.push_back(edge_of(sweep, i));
  }
  add_knees(sweep, chart);
}

// Each product at the batch of the best throughput, as it was observed.
Series products_of(const Sweep& sweep, size_t index) {
  const SweepVariant& v = sweep.variants[index];
  Series points{.name = label_of(sweep, v) + ", products", .x = {{}}, .draw = Draw::kPoints, .colour = index};
  for (const auto& each : v.products) {
    const auto flops = each.at("flops").get<double>(), bytes = each.at("bytes").get<double>(),
               seconds = each.at("seconds").get<double>();
    if (bytes <= 0 || seconds <= 0) continue;
    points.x[0].push_back(flops / bytes);
    points.y.push_back(flops / seconds);
    points.labels.push_back(each.at("module").get<std::string>() + " " + each.at("shape").get<std::string>());
  }
  return points;
}

// A range in which all products lie, and the corner of each roofline.
std::pair<double, double> intensities_of(const Sweep& sweep) {
  double least = std::numeric_limits<double>::infinity(), most = 0;
  const auto take = [&](double intensity) {
    least = std::min(least, intensity / 4);
    most = std::max(most, intensity * 4);
  };
  for (size_t i = 0; i < sweep.variants.size(); ++i) {
    const SweepVariant& v = sweep.variants[i];
    if (v.predicted > 0) take(v.roof.flops_per_second / v.roof.bytes_per_second);
    const Series products = products_of(sweep, i);
    for (const double intensity : products.x[0]) take(intensity);
  }
  return {least, most};
}

// Draws what the device allows at most, and what each product of the model reached.
Chart roofline_chart(const Sweep& sweep) {
  Chart chart;
  chart.title = "roofline (lines), and the products of a call at the batch of the best throughput (points)";
  chart.x = {log_axis("operations for each byte")};
  chart.y = log_axis("FLOP/s");
  const auto [from, to] = intensities_of(sweep);
  for (size_t i = 0; i < sweep.variants.size(); ++i) {
    const SweepVariant& v = sweep.variants[i];
    if (v.predicted <= 0) continue;
    const auto attainable = [&](double intensity) {
      return std::min(v.roof.flops_per_second, intensity * v.roof.bytes_per_second);
    };
    Series edge{.name = label_of(sweep, v), .x = {{}}, .colour = i};
    for (double intensity = from; intensity <= to; intensity *= 2) {
      edge.x[0].push_back(intensity);
      edge.y.push_back(attainable(intensity));
    }
    chart.series.push_back(std::move(edge));
    if (!v.products.empty()) chart.series.push_back(products_of(sweep, i));
  }
  return chart;
}

// The trials of each search that ran, and where it ended.
Chart largest_chart(const Sweep& sweep) {
  Chart chart;
  chart.title = "peak memory of a forward pass in the trials of the search";
  chart.x = {log_axis("batch (samples)")};
  chart.y = log_axis("memory", Format::kBytes);
  for (size_t i = 0; i < sweep.variants.size(); ++i) {
    const SweepVariant& v = sweep.variants[i];
    if (!v.largest || !v.largest->failure.empty()) continue;
    Series trials{.name = label_of(sweep, v), .x = {{}}, .draw = Draw::kPoints, .colour = i};
    for (const ProbeRecord& trial : v.largest->trials) {
      if (trial.peak_bytes == 0) continue;
      trials.x[0].push_back(static_cast<double>(trial.micro_batch));
      trials.y.push_back(static_cast<double>(trial.peak_bytes));
    }
    chart.series.push_back(std::move(trials));
    const std::string name = sweep.key.empty() ? "" : v.value + " ";
    chart.marks.push_back({{static_cast<double>(v.largest->batch)}, cat(name, v.largest->batch), i});
  }
  return chart;
}

page::Table titled(std::string title, page::Table table) {
  table.title = std::move(title);
  return table;
}

page::Section summary_section(const Sweep& sweep) {
  page::Section section{.title = "Prediction and measurement"};
  for (const SweepVariant& variant : sweep.variants) section.paragraphs.push_back(answer_of(sweep, variant));
  for (const SweepVariant& variant : sweep.variants) {
    page::Table said{.title = label_of(sweep, variant)};
    for (const std::string& sentence : sentences_of(sweep, variant)) said.rows.push_back({sentence});
    section.tables.push_back(std::move(said));
  }
  section.tables.push_back(titled("Knees", roofline_cells(sweep)));
  const page::Table times = time_cells(sweep);
  if (!times.rows.empty()) section.tables.push_back(titled("Where the time of a call goes", times));
  return section;
}

page::Section plots_section(const Sweep& sweep) {
  page::Section section{.title = "Batch size"};
  for (const Column<SweepPoint>& column : point_columns()) {
    if (!column.plot) continue;
    section.charts.push_back(chart_of(sweep, column));
    if (column.name == "p50_seconds") complete_latency_chart(sweep, section.charts.back());
  }
  section.charts.push_back(roofline_chart(sweep));
  return section;
}

page::Section largest_section(const Sweep& sweep) {
  return {.title = "Largest batches in the memory band",
          .charts = {largest_chart(sweep)},
          .tables = {largest_cells(sweep)}};
}

// For each variant the whole, and its forward pass alone, dashed.
Chart end_to_end_chart(const Sweep& sweep) {
  Chart chart;
  chart.title = "throughput from the data set to outputs; dashed: the forward pass alone (samples/s)";
  chart.x = {log_axis("batch (samples)")};
  chart.y = log_axis("samples/s");
  for (size_t i = 0; i < sweep.variants.size(); ++i) {
    const std::string name = label_of(sweep, sweep.variants[i]);
    Series whole{.name = name, .x = {{}}, .draw = Draw::kLineAndPoints, .colour = i};
    Series alone{.name = name + ", forward pass", .x = {{}}, .draw = Draw::kDashed, .colour = i};
    for (const auto& [batch, e] : sweep.variants[i].end_to_end) {
      if (!e.failure.empty()) continue;
      for (Series* const series : {&whole, &alone}) series->x[0].push_back(static_cast<double>(batch));
      whole.y.push_back(e.samples_per_second);
      alone.y.push_back(e.forward);
    }
    chart.series.push_back(std::move(whole));
    chart.series.push_back(std::move(alone));
  }
  return chart;
}

page::Section end_to_end_section(const Sweep& sweep) {
  return {.title = "End to end: loading, copying, forward pass, output",
          .charts = {end_to_end_chart(sweep)},
          .tables = {end_to_end_cells(sweep)}};
}

page::Section points_section(const Sweep& sweep) {
  page::Section section{.title = "Points", .open = false};
  for (const SweepVariant& variant : sweep.variants) {
    section.tables.push_back(titled(label_of(sweep, variant), point_cells(variant)));
  }
  return section;
}

page::Section operators_section(const Sweep& sweep) {
  page::Section section{.title = "Operators", .open = false};
  for (const SweepVariant& variant : sweep.variants) {
    section.tables.push_back(titled(cat(label_of(sweep, variant), ", ", variant.counted_samples, " samples"),
                                    operator_cells(variant)));
  }
  return section;
}

}  // namespace

page::Page sweep_page(const Sweep& sweep) {
  page::Page page{.title = cat("Sweep of ", sweep.name, ": ", to_string(sweep.mode)),
                  .subtitle = subtitle_of(sweep),
                  .sections = {summary_section(sweep), plots_section(sweep)}};
  if (!end_to_end_cells(sweep).rows.empty()) page.sections.push_back(end_to_end_section(sweep));
  if (!largest_cells(sweep).rows.empty()) page.sections.push_back(largest_section(sweep));
  page.sections.push_back(points_section(sweep));
  page.sections.push_back(operators_section(sweep));
  return page;
}

std::vector<fs::path> write_sweep(const Sweep& sweep, const fs::path& folder) {
  return write_sweep_files(folder, "sweep", to_json(sweep), to_csv(sweep), sweep_page(sweep));
}

bool is_sweep_folder(const fs::path& folder) {
  return fs::exists(folder / "sweep.json");
}

std::vector<fs::path> draw_sweep(const fs::path& folder) {
  return draw_again(
      folder / "sweep.json", "sweep", "autotrain sweep",
      [&](const nlohmann::ordered_json& json) { return write_sweep(sweep_from_json(json), folder); });
}

}  // namespace autotrain
