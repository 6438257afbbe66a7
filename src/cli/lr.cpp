#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "autotrain/log.h"
#include "base/interrupt.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/study_command.h"
#include "lr/learning_rate.h"
#include "lr/lr_page.h"
#include "report/block_plot.h"
#include "report/live_text.h"
#include "report/table.h"
#include "trainer/run_folder.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

struct LrOptions : RecipeOptions, PrintOptions, OutputOption {
  RunChoice run;
  RangeTestOptions range;
};

// Shows a person how far the test is.
class RangeWatch {
 public:
  RangeWatch(bool talks, int64_t stretches) : talks_(talks), stretches_(stretches), live_(stderr) {}

  void on_update(const RangeProgress& now) {
    if (!talks_ || !live_.due()) return;
    live_.show(cat("stretch ", now.stretch + 1, " of ", stretches_, " · ", now.held ? "holding " : "",
                   "learning rate ", brief(now.lr, 3), " · loss ", brief(now.loss), "\n"));
  }

 private:
  const bool talks_;
  const int64_t stretches_;
  LiveText live_;
};

std::string plot_of(const LearningRateTest& test) {
  BlockPlot plot{.title = "loss over learning rate", .log_x = true, .colour = wants_colour(stdout)};
  for (size_t i = 0; i < test.stretches.size(); ++i) {
    BlockSeries series{.name = cat("stretch ", i + 1)};
    for (const RatePoint& point : shown_points(test.stretches[i])) {
      series.x.push_back(point.lr);
      series.y.push_back(point.loss);
    }
    plot.series.push_back(std::move(series));
  }
  return plot.text();
}

std::string text_of(const LearningRateTest& test) {
  const page::Table table = table_of(test);
  return cat(plot_of(test), "\n", TextTable(table.header, table.rows).text(), "\n",
             join(notes_of(test), "\n"), "\n\n");
}

void check(const LrOptions& options) {
  refuse_several_ranks();
  if (options.config.empty() == options.run.folder.empty()) {
    throw Error(ExitCode::kUsage, "autotrain lr", "takes a recipe or a run",
                "give --config R.yaml, or --run DIR to begin with its trained weights");
  }
  if (options.range.from > options.range.to)
    throw Error(ExitCode::kUsage, "--from", "is larger than --to", "for instance --from 1e-6 --to 10");
}

LearningRateTest test_of(const LrOptions& options, const RangeTestOptions& range) {
  if (options.run.folder.empty()) return test_learning_rate(options.load(), options.fresh_plan, range);
  return test_learning_rate(open_trained_run(options.run, options.overrides), range);
}

ExitCode run_lr(const LrOptions& options) {
  check(options);
  install_signal_handlers();
  log::set_sink(log::terminal_sink(), options.log_level());
  RangeTestOptions range = options.range;
  LearningRateTest test;
  {
    RangeWatch watch(options.talks(), range.stretches);
    range.on_update = [&](const RangeProgress& now) { watch.on_update(now); };
    test = test_of(options, range);
  }
  const fs::path folder =
      options.output.empty() ? claim_first_free("runs", test.name + "-lr") : options.output;
  write_learning_rate(test, folder);
  print_study(options, to_json(test),
              cat(options.talks() ? text_of(test) : "", answer_of(test), "\n",
                  options.talks() ? (folder / "lr.html").string() + "\n" : ""),
              folder);
  return ExitCode::kDone;
}

std::function<ExitCode()> declare_lr(CLI::App& app) {
  const auto options = std::make_shared<LrOptions>();
  RangeTestOptions& range = options->range;
  const CLI::Range rate(1e-12, 1e6);
  options->RecipeOptions::declare(app);
  options->PrintOptions::declare(app);
  options->OutputOption::declare(app, "Folder for lr.json and lr.html; default: runs/<name>-lr-<n>");
  app.add_option("--run", options->run.folder, "Begin with the weights of a run")->type_name("DIR");
  app.add_option("--checkpoint", options->run.checkpoint, "newest, best, or the number of an update")
      ->capture_default_str()
      ->type_name("WHICH");
  app.add_option("--from", range.from, "Least learning rate")->check(rate)->capture_default_str();
  app.add_option("--to", range.to, "Greatest learning rate")->check(rate)->capture_default_str();
  app.add_option("--factor", range.factor, "From one rate to the next")
      ->check(CLI::Range(1.01, 10.0))
      ->capture_default_str();
  app.add_option("--stretches", range.stretches, "Stretches of the stream, each tested from the same weights")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  app.add_option("--hold", range.held_updates, "Updates at each rate that is held to find the edge")
      ->check(CLI::Range(4, 100000))
      ->capture_default_str();
  return [options] { return run_lr(*options); };
}

constexpr const char* kLrExamples = R"(
Examples:
  autotrain lr --config R.yaml
      where training diverges and where the loss falls fastest, on three stretches of the data; a line for
      the recipe where they agree, else "undetermined"
  autotrain lr --config R.yaml --set optimizer.clip_norm=null --from 1e-4 --to 100
      the same without clipping, which hides divergence, over other rates
  autotrain lr --run runs/a --checkpoint best
      from trained weights, on what the run would train on next
)";

}  // namespace

extern const Command kLr;
const Command kLr = {"lr", "Test learning rates on the recipe, and suggest one only where the tests agree",
                     kLrExamples, declare_lr};

}  // namespace autotrain
