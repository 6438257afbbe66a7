#include "cli/sweep_serving.h"

#include "autotrain/log.h"
#include "autotrain/trainer.h"
#include "base/interrupt.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/study_command.h"
#include "report/block_plot.h"
#include "report/column.h"
#include "report/live_text.h"
#include "report/table.h"
#include "state/run_folder.h"
#include "sweep/serving_page.h"
#include "sweep/serving_sweep.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

std::string text_of_cells(const page::Table& table) {
  return TextTable(table.header, table.rows).text();
}

// The 99th percentile against the rate, a mark for each way of serving.
std::string serving_plot(const ServingSweep& sweep) {
  BlockPlot plot{.title = "99th percentile by rate of arrivals",
                 .log_x = true,
                 .log_y = true,
                 .colour = wants_colour(stdout)};
  plot.x_text = [](double rate) { return format_rate(rate) + "/s"; };
  plot.y_text = [](double seconds) { return milliseconds(seconds) + " ms"; };
  for (const ServingVariant& variant : sweep.variants) {
    for (const ServingLine& line : variant.lines) {
      BlockSeries series{.name = cat(sweep.key.empty() ? "" : variant.value + ", ", words_of(line.serving))};
      for (const ServingPoint& p : line.points) {
        if (!p.p99) continue;
        series.x.push_back(p.rate);
        series.y.push_back(*p.p99);
      }
      plot.series.push_back(std::move(series));
    }
  }
  return plot.text();
}

// Of a terminal's width: the page and the files have all columns.
page::Table short_cells(const ServingVariant& variant) {
  page::Table table{.header = {"serving", "rate", "served/s", "batch", "p50 ms", "p95", "p99", "simulated",
                               "waiting", "loading", "forward", "late", ""}};
  const auto ms = [](const std::optional<double>& seconds) { return seconds ? milliseconds(*seconds) : "-"; };
  for (const ServingLine& line : variant.lines) {
    for (const ServingPoint& p : line.points) {
      table.rows.push_back({words_of(line.serving), format_rate(p.rate), format_rate(p.served),
                            brief(p.mean_batch, 3), ms(p.p50), ms(p.p95), ms(p.p99), ms(p.simulated_p99),
                            ms(p.waiting), ms(p.loading), ms(p.forward),
                            p.late ? format_percent(*p.late, 1) : "-",
                            !p.failure.empty() ? p.failure
                            : p.unstable       ? "unstable"
                                               : ""});
    }
  }
  return table;
}

std::string text_of(const ServingSweep& sweep) {
  std::string text;
  for (const ServingVariant& variant : sweep.variants) {
    text += label_of(sweep, variant) + "\n" + text_of_cells(short_cells(variant)) + "\n" +
            text_of_cells(line_cells(sweep, variant));
    for (const std::string& sentence : sentences_of(sweep, variant)) text += sentence + "\n";
    text += "\n";
  }
  return text + serving_plot(sweep);
}

Tally tally_of(const ServingSweep& sweep) {
  Tally tally;
  for (const ServingVariant& variant : sweep.variants) {
    if (!variant.failure.empty()) tally.add(variant.failure, variant.code);
    for (const ServingLine& line : variant.lines) {
      for (const ServingPoint& point : line.points) tally.add(point.failure, point.code);
    }
  }
  return tally;
}

}  // namespace

void ServingOptions::declare(CLI::App& app) {
  app.add_option("--rate", rates,
                 "A model under load: requests of one sample arrive at so many a second (50,100), whatever "
                 "becomes of them, or auto: at shares of what is served at most")
      ->type_name("RATES");
  app.add_option("--trace", trace,
                 "In the place of --rate: arrivals from a file, a time in seconds on each line")
      ->type_name("FILE");
  app.add_option(
         "--window-ms", windows_ms,
         "With --rate: milliseconds that a request waits for others to fill its batch, such as 0,2,5; "
         "default 0")
      ->type_name("LIST");
  app.add_option(
         "--servers", servers,
         "With --rate: servers of one queue, each with its share of the threads, such as 1,2; default 1")
      ->type_name("LIST");
  app.add_flag("--processes", processes, "With --servers: also as processes, each with a model of its own");
  app.add_flag("--load-ahead", load_ahead,
               "With --rate: also with the next batch loaded while one is computed");
  app.add_option("--percentile", percentile,
                 "With --rate and --latency-ms: the share of requests that the bound is for; default 99")
      ->check(number_from(1, 100));
  app.add_option(
         "--tries", tries,
         "With --rate and --latency-ms: rates that are tried for each way of serving to find the largest "
         "that holds; default 6")
      ->check(number_from(0, 100));
}

ExitCode measure_under_load(const fs::path& config, const std::vector<std::string>& overrides,
                            const fs::path& output, const PrintOptions& print, const ServingOptions& options,
                            std::optional<int64_t> requests, bool bound_options) {
  refuse_several_ranks();
  install_signal_handlers();
  LiveText live(stderr);
  log::set_sink(terminal_sink_above(live), print.log_level());
  ServingRequest request{.config = config,
                         .overrides = overrides,
                         .folder = output,
                         .rates = options.rates,
                         .trace = options.trace,
                         .windows_ms = options.windows_ms,
                         .servers = options.servers,
                         .load_ahead = options.load_ahead,
                         .processes = options.processes,
                         .requests = requests,
                         .percentile = options.percentile,
                         .bound_options = bound_options,
                         .tries = options.tries};
  check_serving_sweep(request);  // before a folder is made for it
  if (output.empty())
    request.folder = claim_first_free("runs", load_recipe(config, overrides).name + "-load");
  request.on_sweep = [&](const ServingSweep& sweep) { write_serving(sweep, request.folder); };
  if (print.talks()) tell_measurements(request, live, "under load");
  const ServingSweep sweep = saying_how_to_go_on(request.folder, [&] { return run_serving_sweep(request); });
  live.clear();
  write_serving(sweep, request.folder);
  const Tally tally = tally_of(sweep);
  const std::string text = print.talks() ? text_of(sweep) + "\n" : "";
  print_study(print, to_json(sweep), text + end_of_sweep(tally, request.folder), request.folder);
  return tally.code();
}

}  // namespace autotrain
