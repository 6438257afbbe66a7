#include <CLI/CLI.hpp>
#include <cstdio>
#include <limits>
#include <memory>

#include "autotrain/log.h"
#include "autotrain/trainer.h"
#include "base/interrupt.h"
#include "base/text.h"
#include "base/units.h"
#include "checkpoint/checkpoint.h"
#include "cli/command.h"
#include "cli/study_command.h"
#include "cli/sweep_decode.h"
#include "cli/sweep_serving.h"
#include "model/pruned.h"
#include "recipe/recipe_enums.h"
#include "report/block_plot.h"
#include "report/column.h"
#include "report/live_text.h"
#include "report/table.h"
#include "state/run_folder.h"
#include "study/trained_run.h"
#include "sweep/sweep.h"
#include "sweep/sweep_page.h"
#include "sweep/sweep_tables.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

// A safetensors file, the index or folder of several, or the newest checkpoint of a run.
std::string weights_file(const fs::path& given) {
  if (!fs::exists(given)) {
    throw Error(ExitCode::kMissingFile, given.string(), "is not there",
                "give --weights the folder of a run, a safetensors file or the folder of several");
  }
  if (!fs::is_directory(given / "checkpoints")) return given.string();
  const auto pruned = is_run_folder(given) ? pruned_by_file(load_recipe(given / "recipe.yaml", {}).weights)
                                           : std::optional<CompressedWeights>();
  if (pruned && !pruned->kept.empty()) {
    throw Error(ExitCode::kBadRecipe, given.string(),
                "began with pruned weights: its checkpoints do not say which shapes those have",
                cat("write them by autotrain export --run ", given.string(),
                    " --output w.safetensors, and give --weights w.safetensors"));
  }
  const CheckpointFolder checkpoints(given / "checkpoints");
  const auto newest = checkpoints.read_newest_state();
  if (newest) return evaluated_weights(checkpoints.path_of(newest->first)).string();
  throw Error(ExitCode::kMissingFile, given.string(), "holds no checkpoint",
              "give --weights the folder of a run, or a safetensors file");
}

// A path as --set reads it back: quoted, and no dollar sign in it begins a variable.
std::string setting_of(const std::string& path) {
  std::string quoted = "'";
  for (const char c : path) quoted += c == '\'' || c == '$' ? std::string(2, c) : std::string(1, c);
  return quoted + "'";
}

struct SweepCommandOptions : RecipeOptions, PrintOptions, OutputOption {
  std::vector<std::string> vary;        ///< one axis
  std::vector<std::string> sweep_keys;  ///< what the options say, as --set would
  fs::path weights;                     ///< a run's folder or safetensors
  bool largest = false;                 ///< also search the largest batches
  bool end_to_end = false;              ///< also with loading and output
  DecodeOptions decode;
  ServingOptions serving;
};

// The recipe's section `sweep`, with what the command line says in its place.
std::vector<std::string> overrides_of(const SweepCommandOptions& options) {
  std::vector<std::string> all = options.overrides;
  all.insert(all.end(), options.sweep_keys.begin(), options.sweep_keys.end());
  for (const std::string& axis : options.vary) all.push_back("sweep.vary=" + axis);
  if (!options.weights.empty()) all.push_back("model.weights=" + setting_of(weights_file(options.weights)));
  return all;
}

std::string text_of(const page::Table& table) {
  return TextTable(table.header, table.rows).text();
}

// Latency against batch, both logarithmic, a mark for each variant.
std::string plot_of(const Sweep& sweep) {
  BlockPlot plot{
      .title = "median latency by batch", .log_x = true, .log_y = true, .colour = wants_colour(stdout)};
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

std::string text_of(const Sweep& sweep) {
  std::string text;
  for (const SweepVariant& variant : sweep.variants) {
    text += answer_of(sweep, variant) + "\n";
    text += text_of(point_cells(variant));
    for (const std::string& sentence : sentences_of(sweep, variant)) text += sentence + "\n";
    text += "\n";
  }
  text += plot_of(sweep) + "\n" + text_of(roofline_cells(sweep));
  const page::Table whole = end_to_end_cells(sweep);
  if (!whole.rows.empty()) text += "\nend to end (samples/s), and each stage by itself\n" + text_of(whole);
  const page::Table largest = largest_cells(sweep);
  if (!largest.rows.empty()) text += "\nlargest batches in the memory band\n" + text_of(largest);
  const page::Table times = time_cells(sweep);
  return times.rows.empty() ? text : text + "\nwhere the time of a call goes\n" + text_of(times);
}

Tally tally_of(const Sweep& sweep) {
  Tally tally;
  for (const SweepVariant& variant : sweep.variants) {
    for (const SweepPoint& point : variant.points) tally.add(point.failure, point.code);
  }
  return tally;
}

// Shows a person how far a sweep is: a table that is redrawn on a terminal, else a line for each
// measurement. And its files, with what is known by then.
class SweepWatch {
 public:
  SweepWatch(const fs::path& folder, LiveText& live) : folder_(folder), live_(live) {}

  void attach_to(SweepRequest& options, bool talks) {
    options.on_sweep = [this](const Sweep& sweep) { on_sweep(sweep); };
    if (!talks) return;
    options.on_progress = [this](const StudyProgress& progress) { on_progress(progress); };
    options.on_result = [](const std::string& line) { log::info("sweep", line); };
  }

 private:
  void on_sweep(const Sweep& sweep) {
    so_far_ = sweep;
    write_sweep(sweep, folder_);
  }

  void on_progress(const StudyProgress& progress) {
    if (!live_.due()) return;
    TextTable table({"", "batches", "best samples/s", "at batch"});
    for (const SweepVariant& variant : so_far_.variants) {
      const SweepPoint* const best = best_within(variant, std::numeric_limits<double>::infinity());
      table.add_row({label_of(so_far_, variant), cat(variant.points.size()),
                     best == nullptr ? "-" : format_rate(best->samples_per_second),
                     best == nullptr ? "-" : cat(best->batch)});
    }
    live_.show(cat(table.text(), progress.done, " of ", progress.total, " measurements · ", progress.running,
                   left_text(progress)));
  }

  const fs::path& folder_;
  LiveText& live_;
  Sweep so_far_;
};

ExitCode measure_sweep(const SweepCommandOptions& options) {
  refuse_several_ranks();
  install_signal_handlers();
  LiveText live(stderr);
  log::set_sink(terminal_sink_above(live), options.log_level());
  SweepRequest sweep_options{.config = options.config,
                             .overrides = overrides_of(options),
                             .folder = options.output,
                             .largest = options.largest,
                             .end_to_end = options.end_to_end};
  const Recipe recipe = load_recipe(options.config, sweep_options.overrides);
  check_sweep(sweep_options);  // before a folder is made for it
  if (options.output.empty()) sweep_options.folder = claim_first_free("runs", recipe.name + "-sweep");
  SweepWatch watch(sweep_options.folder, live);
  watch.attach_to(sweep_options, options.talks());
  if (options.talks()) {
    log::info("sweep", cat(to_string(recipe.sweep.mode), " in ", sweep_options.folder.string(),
                           "; its report.html grows with every measurement"));
  }
  const Sweep sweep = saying_how_to_go_on(sweep_options.folder, [&] { return run_sweep(sweep_options); });
  live.clear();
  write_sweep(sweep, sweep_options.folder);
  const std::string text = options.talks() ? text_of(sweep) + "\n" : "";
  const Tally tally = tally_of(sweep);
  print_study(options, to_json(sweep), text + end_of_sweep(tally, sweep_options.folder),
              sweep_options.folder);
  return tally.code();
}

// Whether each batch size learns is not measured by calls, but by runs.
std::string refuse_converge(const std::string& mode) {
  if (mode != "converge") return "";
  throw Error(ExitCode::kUsage, "--mode converge", "trains runs, which is what autotrain compare does",
              "autotrain compare R.yaml --vary batch.effective=64,256");
}

// Options that stand for keys of the recipe's section `sweep`.
void declare_sweep_keys(CLI::App& sweep, SweepCommandOptions& options) {
  const auto stands_for = [&](const char* option, const char* key, const char* value_name,
                              const char* sentence) {
    return sweep
        .add_option_function<std::string>(
            option,
            [&options, key](const std::string& value) {
              options.sweep_keys.push_back(std::string("sweep.") + key + "=" + value);
            },
            sentence)
        ->type_name(value_name);
  };
  stands_for(
      "--batches", "batches", "SIZES",
      "1,32,128 or 1..4096 (powers of two, and the end) or auto (doubled to at most 4096, until nothing is "
      "gained); default: the recipe's sweep.batches, else auto");
  stands_for("--latency-ms", "latency_ms", "X",
             "Find the largest throughput whose p99 is at most so many milliseconds");
  stands_for("--device-figures", "device_figures", "FIGURES",
             "Also predict for a device that is not here, from its data sheet: 65TFLOP/s,300GB/s");
  stands_for("--rounds", "rounds", "N",
             "Measurements of each point, 1 to 1000; default: the recipe's sweep.rounds, else 2");
  stands_for("--seconds", "max_seconds", "X",
             "Longest time of one measurement; default: the recipe's sweep.max_seconds, else 2");
  stands_for("--mode", "mode", "MODE",
             "Forward passes, or whole updates; default: the recipe's sweep.mode, else inference")
      ->check(refuse_converge)
      ->check(CLI::IsMember({"inference", "training"}));
}

void declare_axis(CLI::App& app, SweepCommandOptions& options) {
  app.add_option("--vary", options.vary,
                 "A further axis: model.width=64,256 or execution.precision=fp32,bf16; lists in brackets: "
                 "'data.train.size=[32,32],[64,64]'; several keys that take the same values with commas: "
                 "data.train.size,data.validation.size=…")
      ->allow_extra_args(false)
      ->type_name("KEY=VALUES");
}

ExitCode measure_load(const CLI::App& app, const SweepCommandOptions& options) {
  if (app.count("--trace") > 0)
    refuse_options(app, {"--rate", "--requests", "--tries"},
                   "is for arrivals that are drawn, and --trace has its own", "leave one of them out");
  if (app.count("--trace") > 0 && options.serving.trace.empty())
    throw Error(ExitCode::kUsage, "--trace", "names no file",
                "give a file with a time in seconds on each line");
  refuse_options(app, {"--decode", "--contexts", "--largest", "--end-to-end", "--device-figures"},
                 "measures something else than requests that arrive", "leave it out, or --rate and --trace");
  return measure_under_load(options.config, overrides_of(options), options.output, options, options.serving,
                            options.decode.requests, app.count("--percentile") + app.count("--tries") > 0);
}

ExitCode measure_decode(const CLI::App& app, const SweepCommandOptions& options) {
  refuse_options(app, {"--largest", "--end-to-end", "--latency-ms", "--device-figures", "--mode"},
                 "is of whole passes, and --decode takes one token after the other", "leave one of them out");
  return measure_decoding(options.config, overrides_of(options), options.output, options, options.decode);
}

ExitCode measure_what_is_asked(const CLI::App& app, const SweepCommandOptions& options) {
  if (app.count("--rate") + app.count("--trace") > 0) return measure_load(app, options);
  refuse_without("--rate", app,
                 {"--window-ms", "--servers", "--processes", "--load-ahead", "--percentile", "--tries"});
  if (options.decode.decode) return measure_decode(app, options);
  refuse_without("--decode", app, {"--contexts"});
  refuse_without("--decode or --rate", app, {"--requests"});
  return measure_sweep(options);
}

std::function<ExitCode()> declare_sweep(CLI::App& app) {
  const auto options = std::make_shared<SweepCommandOptions>();
  options->RecipeOptions::declare(app);
  options->PrintOptions::declare(app);
  options->OutputOption::declare(app, "Folder of the results; one with results goes on where it ended");
  declare_sweep_keys(app, *options);
  app.add_option("--weights", options->weights,
                 "Trained weights, a run's folder or safetensors: also say how good each variant is")
      ->type_name("RUN");
  app.add_flag("--largest", options->largest,
               "Also search the largest batch of a forward pass whose memory lies in the band");
  app.add_flag(
      "--end-to-end", options->end_to_end,
      "Also measure each batch from the data to outputs: loading, decoding, copying, forward pass, output");
  declare_axis(app, *options);
  options->decode.declare(app);
  options->serving.declare(app);
  return [options, &app] {
    if (options->vary.size() > 1)
      throw Error(ExitCode::kUsage, "--vary", "is one axis here",
                  "autotrain compare R.yaml --vary A=… --vary B=… trains at every combination");
    options->check_named();
    return measure_what_is_asked(app, *options);
  };
}

constexpr const char* kSweepExamples = R"(
Examples:
  autotrain sweep --config R.yaml --batches 1..512
      inference: latency, throughput and memory, predicted and measured knee
  autotrain sweep --config R.yaml --vary execution.precision=fp32,bf16,int8 \
      --weights runs/a
      the same in three precisions, with the accuracy that each costs
  autotrain sweep --config R.yaml --device-figures 65TFLOP/s,300GB/s
      the prediction for a Tesla T4 beside the one for this machine
  autotrain sweep --config R.yaml --vary execution.precision=fp32,bf16 --largest
      also the largest batch that fits the memory band in each precision
  autotrain sweep --config R.yaml \
      --vary 'data.train.size,data.validation.size=[128,128],[224,224]'
      two sizes of images; the quotes are for shells to which brackets mean
      files
  autotrain sweep --config R.yaml --end-to-end
      also samples a second with loading and output around the forward pass, and
      which of them bounds it
  autotrain sweep --config R.yaml --decode --batches 1,8,64 --contexts 128,1024
      a transformer token by token: tokens a second and seconds a token beside
      the time to read weights and cache
  autotrain sweep --config R.yaml --rate auto --batches 1,4,16 --window-ms 0,2 \
      --latency-ms 20
      requests of one sample that come at random: p50, p95 and p99 from arrival
      to outputs, the largest rate that holds 20 ms, and which batch to take
  autotrain sweep --config R.yaml --rate 200 --servers 1,2 --processes \
      --load-ahead
      one server against two threads and two processes; each also loads its next
      batch while it computes one
  autotrain sweep --config R.yaml --mode training --latency-ms 200
      updates instead; the best within 200 ms
)";

}  // namespace

extern const Command kSweep;
const Command kSweep = {"sweep", "Measure latency, throughput and memory over batch sizes", kSweepExamples,
                        declare_sweep};

}  // namespace autotrain
