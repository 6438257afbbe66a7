#include "sweep/sweep_tables.h"

#include <cmath>

#include "base/text.h"
#include "base/units.h"

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
  return join(words, ", ");
}

std::string copies_of(const SweepPoint& p) {
  if (!p.copy_to_device_seconds) return "none";
  return cat(milliseconds(*p.copy_to_device_seconds), " + ", milliseconds(*p.copy_to_host_seconds));
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

std::string milliseconds(double seconds) {
  return seconds < 0.1 ? brief(seconds * 1e3, 3) : fixed(seconds * 1e3, 0);
}

std::string knee_text(const Knee& knee) {
  return (!knee.reached ? "≥ " : knee.below_range ? "≤ " : "") + brief(knee.batch, 3);
}

page::Table point_cells(const SweepVariant& variant) {
  page::Table table{.header = {"batch", "p50 ms", "", "drift", "p90", "p99", "samples/s", "FLOP/s", "bytes/s",
                               "copies ms", "peak", "fill", ""}};
  for (const SweepPoint& p : variant.points) {
    const std::string batch = std::to_string(p.batch);
    if (!p.failure.empty()) {
      table.rows.push_back({batch, "-", "", "", "", "", "", "", "", "", "", "", p.failure});
      continue;
    }
    table.rows.push_back({batch, milliseconds(p.p50_seconds),
                          p.half_width ? "±" + format_percent(*p.half_width) : "-", percent_or_dash(p.drift),
                          milliseconds(p.p90_seconds), milliseconds(p.p99_seconds),
                          format_rate(p.samples_per_second), format_rate(p.flops_per_second),
                          p.bytes_per_second ? format_rate(*p.bytes_per_second) : "-", copies_of(p),
                          format_bytes(p.peak_bytes), format_percent(p.fill), trouble_of(p)});
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
  page::Table table{
      .header = {first_header(sweep), "precision", "batch", "peak", "fill", "samples/s", "reason", "trials"}};
  for (const SweepVariant& v : sweep.variants) {
    if (!v.largest) continue;
    const LargestBatch& l = *v.largest;
    if (!l.failure.empty()) {
      table.rows.push_back({first_cell(sweep, v), v.precision, "-", "-", "-", "-", l.failure, "-"});
      continue;
    }
    table.rows.push_back({first_cell(sweep, v), v.precision, std::to_string(l.batch),
                          format_bytes(l.peak_bytes), format_percent(l.fill),
                          format_rate(l.samples_per_second), to_string(l.reason),
                          std::to_string(l.trials.size())});
  }
  return table;
}

page::Table end_to_end_cells(const Sweep& sweep) {
  page::Table table{.header = {first_header(sweep), "batch", "end to end", "drift", "of the forward pass",
                               "waits", "loading", "copying", "forward", "output", "slowest", "peak"}};
  for (const SweepVariant& v : sweep.variants) {
    for (const auto& [batch, e] : v.end_to_end) {
      std::vector<std::string> row = {first_cell(sweep, v), std::to_string(batch)};
      if (e.failure.empty()) {
        row.insert(row.end(), {format_rate(e.samples_per_second), percent_or_dash(e.drift),
                               format_percent(e.samples_per_second / e.forward, 0),
                               format_percent(e.waiting_share, 0), format_rate(e.loading),
                               format_rate(e.copying), format_rate(e.forward), format_rate(e.output),
                               cat(to_string(e.slowest().first), e.stages_compete() ? ", competing" : ""),
                               format_bytes(e.peak_bytes)});
      } else {
        row.insert(row.end(), {"-", "-", "-", "-", "-", "-", "-", "-", e.failure, "-"});
      }
      table.rows.push_back(std::move(row));
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
