#include "predict/predict.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "autotrain/log.h"
#include "base/clock.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/command.h"
#include "cli/generate_text.h"
#include "cli/run_options.h"
#include "plan/inference_search.h"
#include "plan/plan_json.h"
#include "plan/plan_words.h"
#include "report/live_text.h"
#include "setup/start_table.h"

namespace autotrain {
namespace {

struct PredictCommandOptions : RunOptions, PrintOptions {
  PredictOptions predict;
  PromptOptions prompt;
  std::optional<double> latency_ms;
  bool resume = false, overwrite = false;
};

PredictOptions options_of(const PredictCommandOptions& command) {
  if (command.resume && command.overwrite) {
    throw Error(ExitCode::kUsage, "--overwrite", "contradicts --resume",
                "give --resume to go on, --overwrite to begin anew");
  }
  PredictOptions options = command.predict;
  options.run = command.run;
  options.overrides = command.overrides;
  if (command.latency_ms) options.latency_seconds = *command.latency_ms / 1e3;
  if (options.batch && options.latency_seconds) {
    throw Error(ExitCode::kUsage, "--latency-ms", "finds a batch, and --batch gives one",
                "leave one of them out");
  }
  if (command.resume) options.start = PredictionStart::kResume;
  if (command.overwrite) options.start = PredictionStart::kOverwrite;
  options.search_apart = true;
  return options;
}

std::string batch_in_words(const PredictionSummary& s, const PredictOptions& options) {
  std::string words = cat("batch ", s.batch);
  if (s.oom_recoveries > 0) words += cat(" after memory ran out ", s.oom_recoveries, " times");
  if (!s.search || s.oom_recoveries > 0) return words;
  BatchPlan plan;
  plan.search = *s.search;
  words += cat(" (", format_percent(s.search->fill), " of ", format_bytes(s.budget_bytes), "; ",
               reason_in_words(plan), ")");
  if (!options.latency_seconds) return words;
  const ProbeRecord& trial = *find_size(s.search->probes, s.search->micro_batch);
  return cat(words, " · ", brief(1e3 * forward_seconds(trial), 3), " ms a forward pass");
}

std::string closing_line(const PredictionSummary& s, const PredictOptions& options) {
  if (s.already_whole) {
    return cat(options.output.string(),
               " is there already, and whole: nothing is left to do; --overwrite predicts anew\n");
  }
  const int64_t made = s.samples - s.resumed_from;
  const std::string before = s.resumed_from > 0 ? cat(", ", format_count(s.resumed_from), " before") : "";
  const std::string& asked = options.run.checkpoint;
  const bool by_word = asked == "newest" || asked == "best";
  return cat(format_count(made), " samples in ", format_seconds(s.seconds), before, " · ",
             format_rate(s.samples_per_second), " samples/s · ", batch_in_words(s, options), " · by ",
             options.run.weights.empty() ? cat("update ", s.update, by_word ? cat(" (", asked, ")") : "")
                                         : options.run.weights.string(),
             " · ", options.output.string(), "\n");
}

nlohmann::ordered_json search_json(const SearchResult& search) {
  nlohmann::ordered_json probes = nlohmann::ordered_json::array();
  for (const ProbeRecord& probe : search.probes) probes.push_back(probe_to_json(probe));
  return {{"batch", search.micro_batch},
          {"reason", to_string(search.reason)},
          {"fill", search.fill},
          {"peak_bytes", search.peak_bytes},
          {"forward_seconds", forward_seconds(*find_size(search.probes, search.micro_batch))},
          {"seconds", search.seconds},
          {"probes", std::move(probes)}};
}

nlohmann::ordered_json summary_json(const PredictionSummary& s, const PredictOptions& options) {
  if (s.already_whole) {
    return {
        {"run", options.run.folder.string()}, {"output", options.output.string()}, {"already_whole", true}};
  }
  return {{"run", options.run.folder.string()},
          {"update", s.update},
          {"weights", options.run.weights.empty() ? nlohmann::ordered_json(nullptr)
                                                  : nlohmann::ordered_json(options.run.weights.string())},
          {"output", options.output.string()},
          {"already_whole", false},
          {"samples", s.samples},
          {"resumed_from", s.resumed_from},
          {"seconds", s.seconds},
          {"samples_per_second", s.samples_per_second},
          {"batch", s.batch},
          {"oom_recoveries", s.oom_recoveries},
          {"budget_bytes", s.budget_bytes},
          {"search", s.search ? search_json(*s.search) : nlohmann::ordered_json(nullptr)}};
}

// What a person at a terminal sees while it runs.
class PredictWatch {
 public:
  explicit PredictWatch(const PredictCommandOptions& options)
      : talks_(options.talks()), live_(stderr, LiveText::Elsewhere::kLines) {
    log::set_sink(terminal_sink_above(live_), options.log_level());
  }
  ~PredictWatch() { log::set_sink(log::terminal_sink(), log::Level::kWarning); }
  PredictWatch(const PredictWatch&) = delete;
  PredictWatch& operator=(const PredictWatch&) = delete;

  PredictionListener listener() {
    return {.on_batch = [this](int64_t done, int64_t total, int64_t from) { show(done, total, from); }};
  }
  void clear() { live_.clear(); }

 private:
  void show(int64_t done, int64_t total, int64_t from) {
    if (first_ < 0) first_ = done, watch_.restart();  // the first batch compiles kernels
    if (!talks_ || !live_.due()) return;
    std::string line = cat("predicting ", format_count(done), "/", format_count(total), " samples");
    if (from > 0) line += cat(" · ", format_count(from), " were there");
    if (const double rate = static_cast<double>(done - first_) / watch_.seconds(); done > first_) {
      line += cat(" · ", format_rate(rate), " samples/s · ",
                  format_seconds(static_cast<double>(total - done) / rate), " left");
    }
    live_.show(line);
  }

  bool talks_;
  LiveText live_;
  int64_t first_ = -1;  // samples that were done when the clock began
  Stopwatch watch_;
};

ExitCode predict_run(const PredictCommandOptions& command) {
  refuse_several_ranks();
  install_signal_handlers();
  const PredictOptions options = options_of(command);
  PredictWatch watch(command);
  const PredictionSummary summary = predict(options, watch.listener());
  watch.clear();
  const std::string text =
      command.json ? text_of_json(summary_json(summary, options)) : closing_line(summary, options);
  std::fputs(text.c_str(), stdout);
  return ExitCode::kDone;
}

// Samples are predicted into a file; a text is generated from prompts.
ExitCode predict_or_generate(const PredictCommandOptions& command, const CLI::App& app) {
  if (command.prompt.asked()) {
    refuse_options(app, {"--data", "--top", "--probabilities", "--score", "--latency-ms", "--resume"},
                   "is of predictions, and --prompt generates", "leave one of them out");
    return generate_text(command, command, command.prompt, command.predict.batch, command.predict.output,
                         command.overwrite);
  }
  refuse_without("--prompt", app, {"--generate", "--temperature", "--top-k", "--top-p", "--seed"});
  if (!command.predict.output.empty()) return predict_run(command);
  throw Error(ExitCode::kUsage, "--output", "is required: the file of the predictions",
              "add --output predictions.csv (or .jsonl, .npy); --prompt TEXT generates without one");
}

std::function<ExitCode()> declare_predict(CLI::App& app) {
  const auto options = std::make_shared<PredictCommandOptions>();
  PredictOptions& predict = options->predict;
  options->RunOptions::declare(app);
  app.add_option("--data", predict.data,
                 "validation, test, train, or a path to samples without labels: a folder of images, an "
                 "image, a table, …")
      ->capture_default_str()
      ->type_name("WHAT");
  app.add_option("-o,--output", predict.output,
                 "The file of the predictions, to be named: .csv, .jsonl or .npy; of generated texts: .jsonl")
      ->type_name("FILE");
  app.add_option("--top", predict.top, "Classification: the likeliest so many classes")
      ->capture_default_str();
  app.add_flag("--probabilities", predict.probabilities, "Classification: also every class's probability");
  app.add_option(
         "--score", predict.least_score,
         "Detection: the least score of a box that is written (default: 0.25; 0.001 for COCO's figures)")
      ->check(number_from(0, 1));
  app.add_option("--batch", predict.batch,
                 "Samples of a forward pass, or sequences at once; default: the largest in the band, or 32")
      ->check(no_positive_number, "NUMBER > 0");
  app.add_option("--latency-ms", options->latency_ms,
                 "Take the largest batch whose forward pass takes at most so many milliseconds")
      ->check(no_positive_number, "NUMBER > 0");
  app.add_flag("--resume", options->resume, "Go on with a prediction that was stopped, if there is one");
  app.add_flag("--overwrite", options->overwrite, "Replace the file, or what a stopped prediction left");
  options->prompt.declare(app);
  options->PrintOptions::declare(app);
  return [options, &app] { return predict_or_generate(*options, app); };
}

constexpr const char* kPredictExamples = R"(
Examples:
  autotrain predict --run runs/a --output predictions.csv
      class and probability of every sample of the run's validation data, by its
      newest checkpoint
  autotrain predict --run runs/a --data photos/ --top 3 --output photos.jsonl
      a folder of images without labels, made to samples as the run's are; the
      three likeliest classes
  autotrain predict --run runs/a --data train --output logits.npy
      what the model gives for the training data, as an array that NumPy reads
  autotrain predict --run runs/a --set data.validation.split=test \
      --probabilities --output test.csv
      other data, and the probabilities of all classes
  autotrain predict --run runs/a --latency-ms 20 --output predictions.csv
      the largest batch whose forward pass takes at most 20 ms
  autotrain predict --run runs/a --output predictions.csv --resume
      go on after a kill: the file ends with the bytes of an undisturbed one
  autotrain predict --run runs/a --prompt "The licence" --generate 200 \
      --top-p 0.9
      a transformer goes on with a text
)";

}  // namespace

extern const Command kPredict;
const Command kPredict = {"predict",
                          "Write what a run says of samples: classes, numbers or losses; or generate",
                          kPredictExamples, declare_predict};

}  // namespace autotrain
