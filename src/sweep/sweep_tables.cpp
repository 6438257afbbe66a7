#include "sweep/sweep_tables.h"

#include <cmath>

#include "base/text.h"
#include "base/units.h"
#include "sweep/sweep_columns.h"

namespace autotrain {
namespace {

std::string percent_or_dash(const std::optional<double>& fraction) {
  return fraction ? format_percent(*fraction, 0) : "-";
}

// The first header of tables with a row for each variant.
std::string first_header(const Sweep& sweep) {
  return sweep.key.empty() ? "recipe" : sweep.key;
}

std::string first_cell(const Sweep& sweep, const SweepVariant& variant) {
  return sweep.key.empty() ? sweep.name : variant.value;
}

std::string trouble_of(const SweepPoint& p) {
  std::vector<std::string> words;
  if (p.allocator_retries > 0) words.push_back(cat(p.allocator_retries, " allocator retries"));
  if (p.swapped_bytes > 0) words.push_back(format_bytes(p.swapped_bytes) + " swapped");
  if (p.major_faults > 0) words.push_back(cat(p.major_faults, " pages from disk"));
  if (p.memory.swapped()) words.push_back("the machine swapped");
  return join(words, ", ");
}

std::string figures_of(const SweepVariant& variant) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : variant.figures) {
    parts.push_back(cat(name, " ", std::isfinite(value) ? fixed(value, 4) : "-"));
  }
  return join(parts, ", ");
}

// The critical batch of one operator in inference: the time to read its weights ÷ the time to compute a
// sample.
std::string critical_batch_of(const SweepVariant& v, const nlohmann::ordered_json& counted) {
  const auto weight_bytes = counted.at("weight_bytes").get<double>();
  if (weight_bytes == 0 || v.roof.flops_per_second == 0) return "-";
  const double flops_per_sample = counted.at("flops").get<double>() / static_cast<double>(v.counted_samples);
  return brief(critical_batch(weight_bytes, flops_per_sample, v.roof), 3);
}

}  // namespace

std::string knee_text(const Knee& knee) {
  return (!knee.reached ? "≥ " : knee.below_range ? "≤ " : "") + brief(knee.batch, 3);
}

namespace {

// The columns of a record; of one that failed, dashes.
template <class Record>
void add_cells(std::vector<std::string>& row, const ColumnsOf<Record>& columns, const Record& record) {
  const std::vector<std::string> cells = record.failure.empty()
                                             ? table_row(columns, record)
                                             : std::vector<std::string>(headings_of(columns).size(), "-");
  row.insert(row.end(), cells.begin(), cells.end());
}

// The columns between the first headings and one without a name, for what went wrong.
template <class Record>
page::Table table_for(std::vector<std::string> first, const ColumnsOf<Record>& columns) {
  page::Table table{.header = std::move(first)};
  for (std::string& heading : headings_of(columns)) table.header.push_back(std::move(heading));
  table.header.emplace_back("");
  return table;
}

}  // namespace

page::Table point_cells(const SweepVariant& variant) {
  page::Table table = table_for({"batch"}, point_columns());
  for (const std::string& heading : headings_of(memory_columns()))
    table.header.insert(table.header.end() - 1, heading);
  for (const SweepPoint& p : variant.points) {
    std::vector<std::string>& row = table.rows.emplace_back();
    row.push_back(std::to_string(p.batch));
    add_cells(row, point_columns(), p);
    for (std::string& cell : table_row(memory_columns(), p.memory)) row.push_back(std::move(cell));
    row.push_back(p.failure.empty() ? trouble_of(p) : p.failure);
  }
  return table;
}

page::Table time_cells(const Sweep& sweep) {
  page::Table table{.header = {first_header(sweep), "batch", "", "p50 ms", "products", "of the peak",
                               "other operators", "between"}};
  const auto add = [&](const SweepVariant& v, int64_t batch, const char* what) {
    const SweepPoint& p = v.point_of(batch);
    if (!p.between_share()) return;
    const bool rated = p.products_flops_per_second && v.roof.flops_per_second > 0;
    table.rows.push_back(
        {first_cell(sweep, v), std::to_string(batch), what, milliseconds(p.p50_seconds),
         percent_or_dash(p.products_share),
         rated ? format_percent(*p.products_flops_per_second / v.roof.flops_per_second, 0) : "-",
         percent_or_dash(p.others_share), percent_or_dash(p.between_share())});
  };
  for (const SweepVariant& v : sweep.variants) {
    if (!v.knee) continue;
    add(v, v.knee->flat_batch, "shortest latency");
    add(v, v.knee->best_batch, "best throughput");
  }
  return table;
}

page::Table roofline_cells(const Sweep& sweep) {
  page::Table table{.header = {first_header(sweep), "precision", "FLOP/sample", "weights", "peak FLOP/s",
                               "reads at", "predicted", "knee", "ratio", "= slower", "× efficiency",
                               "validation"}};
  for (const SweepVariant& v : sweep.variants) {
    if (v.precision.empty()) continue;
    const auto& e = v.explanation;
    table.rows.push_back({first_cell(sweep, v), v.precision, format_rate(v.flops_per_sample),
                          format_bytes(static_cast<int64_t>(v.weight_bytes)),
                          v.predicted > 0 ? format_rate(v.roof.flops_per_second) : "-",
                          format_bytes(static_cast<int64_t>(v.roof.bytes_per_second)) + "/s",
                          v.predicted > 0 ? brief(v.predicted, 3) : "-", v.knee ? knee_text(*v.knee) : "-",
                          e ? brief(e->ratio, 3) : "-", e ? brief(e->slower, 3) : "-",
                          e ? brief(e->efficiency, 2) : "-", v.figures.empty() ? "-" : figures_of(v)});
  }
  return table;
}

page::Table largest_cells(const Sweep& sweep) {
  page::Table table = table_for({first_header(sweep), "precision"}, largest_columns());
  for (const SweepVariant& v : sweep.variants) {
    if (!v.largest) continue;
    std::vector<std::string>& row = table.rows.emplace_back();
    row = {first_cell(sweep, v), v.precision};
    add_cells(row, largest_columns(), *v.largest);
    row.push_back(v.largest->failure);
  }
  return table;
}

page::Table end_to_end_cells(const Sweep& sweep) {
  page::Table table = table_for({first_header(sweep), "batch"}, end_to_end_columns());
  for (const SweepVariant& v : sweep.variants) {
    for (const auto& [batch, e] : v.end_to_end) {
      std::vector<std::string>& row = table.rows.emplace_back();
      row = {first_cell(sweep, v), std::to_string(batch)};
      add_cells(row, end_to_end_columns(), e);
      row.push_back(e.failure);
    }
  }
  return table;
}

page::Table operator_cells(const SweepVariant& variant) {
  page::Table table{.header = {"module", "operator", "kind", "shape", "FLOP", "bytes", "weights", "FLOP/byte",
                               "critical batch"}};
  int64_t others = 0, other_bytes = 0;
  for (const auto& each : variant.counted) {
    const auto flops = each.at("flops").get<double>();
    const auto bytes = each.at("bytes").get<int64_t>();
    if (flops <= 0) {
      ++others;
      other_bytes += bytes;
      continue;
    }
    table.rows.push_back({each.at("module"), each.at("operator"), each.at("kind"), each.at("shape"),
                          format_rate(flops), format_bytes(bytes), format_bytes(each.at("weight_bytes")),
                          brief(flops / static_cast<double>(bytes), 3), critical_batch_of(variant, each)});
  }
  table.rows.push_back(
      {cat(others, " others"), "", "other", "", "-", format_bytes(other_bytes), "-", "-", "-"});
  return table;
}

}  // namespace autotrain
