#include "compress/compress.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "autotrain/log.h"
#include "base/files.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/common_options.h"
#include "cli/run_options.h"
#include "compress/compress_page.h"
#include "compress/compress_table.h"
#include "report/live_text.h"

namespace autotrain {
namespace fs = std::filesystem;
namespace {

constexpr int64_t kMostRounds = 100;

struct CompressOptions : RunChoiceOptions, OverrideOptions, OutputOption, PrintOptions {
  std::string methods = "int8-weights,int4-weights";
  std::vector<int64_t> batches = {1, 64};
  int64_t rounds = 3;
  int64_t samples = 0;  ///< 0: all
  double seconds = 0.5;
  bool overwrite = false;
};

// Weights that were made before are easily lost.
void check_compress_output(const CompressOptions& options) {
  const fs::path& output = options.output;
  if (fs::exists(output) && !fs::is_directory(output))
    throw Error(ExitCode::kUsage, output.string(), "is a file", "give --output the name of a folder");
  if (options.overwrite || !fs::exists(output) || fs::is_empty(output)) return;
  throw Error(ExitCode::kUsage, output.string(), "is there already and not empty",
              "--overwrite replaces its files; or give another --output");
}

CompressRequest request_of(const CompressOptions& options) {
  for (const int64_t batch : options.batches) {
    if (batch < 1) throw Error(ExitCode::kUsage, "--batches", cat(batch, " is no batch"), "give 1,64 or so");
  }
  return {.run = options.run,
          .overrides = options.overrides,
          .methods = parse_methods(options.methods),
          .folder = options.output,
          .samples = options.samples > 0 ? std::optional(options.samples) : std::nullopt,
          .batches = options.batches,
          .seconds = options.seconds,
          .rounds = options.rounds};
}

// All methods are tried before one that is refused ends the command so.
ExitCode code_of(const CompressionResult& result) {
  for (const CompressedModel& model : result.models) {
    if (!model.refused.empty()) return ExitCode::kBadRecipe;
  }
  return ExitCode::kDone;
}

ExitCode compress_run(const CompressOptions& options) {
  refuse_several_ranks();
  install_signal_handlers();
  CompressRequest request = request_of(options);
  check_compress_output(options);
  LiveText live(stderr, LiveText::Elsewhere::kLines);
  log::set_sink(terminal_sink_above(live), options.log_level());
  if (options.talks()) request.on_step = [&](const std::string& what) { live.show(what); };
  CompressionResult result;
  try {
    result = compress(request);
  } catch (...) {
    log::set_sink(log::terminal_sink(), log::Level::kWarning);
    throw;
  }
  live.clear();
  log::set_sink(log::terminal_sink(), log::Level::kWarning);
  const std::string json = text_of_json(to_json(result));
  write_file(options.output / "compress.json", json);
  write_file(options.output / "compress.csv", to_csv(result));
  write_file(options.output / "compress.html", to_page(result));
  std::fputs((options.json ? json : to_text(result)).c_str(), stdout);
  return code_of(result);
}

std::function<ExitCode()> declare_compress(CLI::App& app) {
  const auto options = std::make_shared<CompressOptions>();
  options->RunChoiceOptions::declare(app);
  app.add_option("--methods", options->methods,
                 "Of int8, int8-weights, int4-weights[:32, :64 or :128], 2:4, channels:SHARE, heads:SHARE; "
                 "commas between")
      ->capture_default_str()
      ->type_name("LIST");
  app.add_option("--output", options->output, "The folder for the files, and compress.json, .csv and .html")
      ->required()
      ->type_name("DIR");
  app.add_option("--samples", options->samples,
                 "Evaluate on the first so many validation samples; else on all")
      ->check(CLI::PositiveNumber)
      ->type_name("N");
  app.add_option("--batches", options->batches, "Samples of the forward passes whose speed is measured")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--rounds", options->rounds, "In which the methods take turns; 0: speed is not measured")
      ->check(CLI::Range(int64_t{0}, kMostRounds))
      ->capture_default_str();
  app.add_option("--seconds", options->seconds, "Of each measurement of speed")
      ->check(number_from(0.01, 3600))
      ->capture_default_str();
  app.add_flag("--overwrite", options->overwrite, "Replace files of the folder");
  options->OverrideOptions::declare(app, "Override a key of the run's recipe: section.key=value; repeatable");
  options->PrintOptions::declare(app);
  return [options] { return compress_run(*options); };
}

constexpr const char* kCompressExamples = R"(
The files are read by autotrain evaluate and predict --weights FILE, and in a
recipe by model.weights: FILE. Of pruned ones the model takes the shape, and
what is zero in those of 2:4 stays zero in training.

Examples:
  autotrain compress --run runs/a --output runs/a-small
      weights of eight and of four bits: accuracy, bytes, samples a second and
      the batch from which on a larger one stops being free
  autotrain compress --run runs/a --checkpoint best --rounds 0 \
      --methods int8,int4-weights:32,2:4,channels:0.5 --output runs/a-small
      more ways, of the best checkpoint, without measuring speed
)";

}  // namespace

extern const Command kCompress;
const Command kCompress = {"compress",
                           "Make a run's weights smaller: fewer bits or fewer numbers, and what it costs",
                           kCompressExamples, declare_compress};

}  // namespace autotrain
