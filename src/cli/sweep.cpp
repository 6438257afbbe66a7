#include "cli/sweep.h"

#include <cstdio>

#include "autotrain/log.h"
#include "autotrain/trainer.h"
#include "base/files.h"
#include "base/interrupt.h"
#include "base/text.h"
#include "base/units.h"
#include "checkpoint/checkpoint.h"
#include "recipe/words.h"
#include "report/block_plot.h"
#include "report/progress.h"
#include "report/table.h"
#include "study/sweep.h"
#include "trainer/run_folder.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

// A safetensors file, or the newest checkpoint of a run.
std::string weights_file(const fs::path& given) {
  if (!fs::is_directory(given)) return given.string();
  const CheckpointFolder checkpoints(given / "checkpoints");
  const auto newest = checkpoints.read_newest_state();
  if (newest) return (checkpoints.path_of(newest->first) / "model.safetensors").string();
  throw Error(ExitCode::kMissingFile, given.string(), "holds no checkpoint",
              "give --weights the folder of a run, or a safetensors file");
}

// The recipe's section `sweep`, with what the command line says in its place.
std::vector<std::string> overrides_of(const Options& options) {
  std::vector<std::string> all = options.overrides;
  all.insert(all.end(), options.sweep_settings.begin(), options.sweep_settings.end());
  if (!options.weights.empty()) all.push_back("model.weights=" + weights_file(options.weights));
  return all;
}

std::string milliseconds(double seconds) {
  return brief(seconds * 1e3, 3);
}

std::string percent_or_dash(const std::optional<double>& fraction) {
  return fraction ? "±" + format_percent(*fraction) : "-";
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

std::string points_table(const SweepVariant& variant) {
  TextTable table({"batch", "p50 ms", "", "drift", "p90", "p99", "samples/s", "FLOP/s", "bytes/s",
                   "copies ms", "peak", "fill", ""});
  for (const SweepPoint& p : variant.points) {
    const std::string batch = std::to_string(p.batch);
    if (!p.failure.empty()) {
      table.add_row({batch, "-", "", "", "", "", "", "", "", "", "", "", p.failure});
      continue;
    }
    table.add_row({batch, milliseconds(p.p50_seconds), percent_or_dash(p.half_width),
                   format_percent(p.drift, 0), milliseconds(p.p90_seconds), milliseconds(p.p99_seconds),
                   format_rate(p.samples_per_second), format_rate(p.flops_per_second),
                   p.bytes_per_second ? format_rate(*p.bytes_per_second) : "-", copies_of(p),
                   format_bytes(p.peak_bytes), format_percent(p.fill), trouble_of(p)});
  }
  return table.text();
}

// Latency against batch, both logarithmic, a mark for each variant.
std::string plot_of(const Sweep& sweep) {
  BlockPlot plot{.title = "median latency by batch", .log_x = true, .log_y = true, .colour = wants_colour(stdout)};
  plot.y_text = [](double seconds) { return milliseconds(seconds) + " ms"; };
  for (const SweepVariant& variant : sweep.variants) {
    BlockSeries series{.name = label_of(sweep, variant)};
    for (const SweepPoint& p : variant.points) {
      if (!p.failure.empty()) continue;
      series.x.push_back(static_cast<double>(p.batch));
      series.y.push_back(p.p50_seconds);
    }
    plot.series.push_back(std::move(series));
  }
  return plot.text();
}

std::string figures_of(const SweepVariant& variant) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : variant.figures) parts.push_back(cat(name, " ", fixed(value, 4)));
  return join(parts, ", ");
}

// Prediction, measurement and their ratio, one row for each variant.
std::string roofline_table(const Sweep& sweep) {
  TextTable table({sweep.key.empty() ? "recipe" : sweep.key, "precision", "FLOP/sample", "weights", "peak FLOP/s",
                   "reads at", "predicted", "knee", "ratio", "= slower", "× efficiency", "validation"});
  for (const SweepVariant& v : sweep.variants) {
    if (!v.explanation) continue;
    const char* const mark = !v.knee->reached ? "≥ " : v.knee->below_range ? "≤ " : "";
    table.add_row({sweep.key.empty() ? sweep.name : v.value, v.precision, format_rate(v.flops_per_sample),
                   format_bytes(static_cast<int64_t>(v.weight_bytes)), format_rate(v.roof.flops_per_second),
                   format_bytes(static_cast<int64_t>(v.roof.bytes_per_second)) + "/s", brief(v.predicted, 3),
                   mark + brief(v.knee->batch, 3), brief(v.explanation->ratio, 3),
                   brief(v.explanation->slower, 3), fixed(v.explanation->efficiency, 2),
                   v.figures.empty() ? "-" : figures_of(v)});
  }
  return table.text();
}

std::string text_of(const Sweep& sweep) {
  std::string text;
  for (const SweepVariant& variant : sweep.variants) {
    text += label_of(sweep, variant) + "\n";
    text += points_table(variant);
    for (const std::string& sentence : sentences_of(sweep, variant)) text += sentence + "\n";
    text += "\n";
  }
  return text + plot_of(sweep) + "\n" + roofline_table(sweep);
}

std::string progress_text(const StudyProgress& progress) {
  const std::string left =
      progress.seconds_left ? cat(" · ", format_seconds(*progress.seconds_left), " left") : "";
  return cat(progress.done, " of ", progress.total, " · ", progress.running, left);
}

std::string result_text(const std::string& label, int64_t batch, const StudyResult& result) {
  const std::string what = batch > 0 ? cat(label, " batch ", batch) : label + " counted, machine measured";
  if (result.failed()) return cat(what, ": ", result.failure.substr(0, result.failure.find('\n')));
  if (batch == 0) return what;
  auto seconds = result.value.at("latencies_seconds").get<std::vector<double>>();
  std::ranges::nth_element(seconds, seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2));
  const double median = seconds[seconds.size() / 2];
  return cat(what, ": ", milliseconds(median), " ms, ", format_rate(static_cast<double>(batch) / median),
             " samples/s");
}

void write_results(const Sweep& sweep, const fs::path& folder) {
  write_file_atomically(folder / "sweep.json", to_json(sweep).dump(2) + "\n");
  write_file_atomically(folder / "sweep.csv", to_csv(sweep));
}

}  // namespace

ExitCode sweep_command(const Options& options) {
  install_signal_handlers();
  const bool talks = !options.json && !options.quiet;
  ProgressLine line(stderr);
  log::set_sink(
      [&line, show = log::terminal_sink()](const log::Record& record) {
        line.clear();
        show(record);
      },
      talks ? log::Level::kInfo : log::Level::kWarning);
  SweepOptions sweep_options{.config = options.config, .overrides = overrides_of(options), .folder = options.output};
  const Recipe recipe = load_recipe(options.config, sweep_options.overrides);
  if (options.output.empty()) sweep_options.folder = claim_first_free("runs", recipe.name + "-sweep");
  if (talks) {
    log::info("sweep", cat(name_of(recipe.sweep.mode), " in ", sweep_options.folder.string(),
                           "; --output with this folder goes on after an interruption"));
    sweep_options.on_progress = [&](const StudyProgress& progress) {
      if (line.due()) line.show(progress_text(progress));
    };
    sweep_options.on_result = [](const std::string& label, int64_t batch, const StudyResult& result) {
      log::info("sweep", result_text(label, batch, result));
    };
  }
  const Sweep sweep = run_sweep(sweep_options);
  line.clear();
  write_results(sweep, sweep_options.folder);
  if (options.json) {
    std::printf("%s\n", to_json(sweep).dump(2).c_str());
  } else {
    std::fputs(text_of(sweep).c_str(), stdout);
  }
  return ExitCode::kDone;
}

}  // namespace autotrain
