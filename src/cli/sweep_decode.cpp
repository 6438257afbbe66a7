#include "cli/sweep_decode.h"

#include "autotrain/log.h"
#include "autotrain/trainer.h"
#include "base/interrupt.h"
#include "base/text.h"
#include "cli/study_command.h"
#include "report/block_plot.h"
#include "report/column.h"
#include "report/live_text.h"
#include "report/table.h"
#include "state/run_folder.h"
#include "sweep/decode_page.h"
#include "sweep/decode_sweep.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

std::string words_of_table(const page::Table& table) {
  return TextTable(table.header, table.rows).text();
}

// Time of a token against batch, a mark for each variant and context.
std::string decode_plot(const DecodeSweep& sweep) {
  BlockPlot plot{.title = "median time of a token by batch",
                 .log_x = true,
                 .log_y = true,
                 .colour = wants_colour(stdout)};
  plot.y_text = [](double seconds) { return milliseconds(seconds) + " ms"; };
  for (const DecodeVariant& variant : sweep.variants) {
    std::map<int64_t, BlockSeries> by_context;
    for (const DecodePoint& p : variant.points) {
      if (!p.failure.empty()) continue;
      BlockSeries& series = by_context[p.context];
      series.name = cat(sweep.key.empty() ? "" : variant.value + ", ", "context ", p.context);
      series.x.push_back(static_cast<double>(p.batch));
      series.y.push_back(p.p50_seconds);
    }
    for (auto& [context, series] : by_context) plot.series.push_back(std::move(series));
  }
  return plot.text();
}

std::string text_of(const DecodeSweep& sweep) {
  std::string text;
  for (const DecodeVariant& variant : sweep.variants) {
    text += label_of(sweep, variant) + "\n" + words_of_table(decode_cells(variant));
    for (const std::string& sentence : sentences_of(variant)) text += sentence + "\n";
    text += "\n";
  }
  text += decode_plot(sweep);
  const page::Table batching = batching_cells(sweep);
  if (!batching.rows.empty()) text += "\nrequests of unequal lengths\n" + words_of_table(batching);
  return text;
}

Tally tally_of(const DecodeSweep& sweep) {
  Tally tally;
  for (const DecodeVariant& variant : sweep.variants) {
    for (const DecodePoint& point : variant.points) tally.add(point.failure, point.code);
  }
  return tally;
}

}  // namespace

void DecodeOptions::declare(CLI::App& app) {
  app.add_flag(
      "--decode", decode,
      "Measure tokens one after the other with a cache of keys and values, over --batches and --contexts");
  app.add_option("--contexts", contexts,
                 "With --decode: tokens of a sequence, 128,512 or 64..1024; default: the samples' length")
      ->type_name("SIZES");
  app.add_option(
         "--requests", requests,
         "With --decode: also generate for so many requests of unequal lengths, by static and by continuous "
         "batches; with --rate: so many at each rate, in the place of those that come in --seconds")
      ->check(no_positive_number, "NUMBER > 0");
}

ExitCode measure_decoding(const fs::path& config, const std::vector<std::string>& overrides,
                          const fs::path& output, const PrintOptions& print, const DecodeOptions& options) {
  refuse_several_ranks();
  install_signal_handlers();
  LiveText live(stderr);
  log::set_sink(terminal_sink_above(live), print.log_level());
  DecodeSweepRequest request{.config = config,
                             .overrides = overrides,
                             .folder = output,
                             .contexts = options.contexts,
                             .requests = options.requests};
  check_decode_sweep(request);  // before a folder is made for it
  if (output.empty())
    request.folder = claim_first_free("runs", load_recipe(config, overrides).name + "-decode");
  request.on_sweep = [&](const DecodeSweep& sweep) { write_decode(sweep, request.folder); };
  if (print.talks()) tell_measurements(request, live, "decoding");
  const DecodeSweep sweep = saying_how_to_go_on(request.folder, [&] { return run_decode_sweep(request); });
  live.clear();
  write_decode(sweep, request.folder);
  const Tally tally = tally_of(sweep);
  const std::string text = print.talks() ? text_of(sweep) + "\n" : "";
  print_study(print, to_json(sweep), text + end_of_sweep(tally, request.folder), request.folder);
  return tally.code();
}

}  // namespace autotrain
