#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "autotrain/log.h"
#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/command.h"
#include "cli/common_options.h"
#include "device/cores.h"
#include "examine/examination_report.h"
#include "report/live_text.h"

namespace autotrain {
namespace {

struct DataOptions : RecipeOptions, PrintOptions {
  std::filesystem::path page;
  int64_t samples = 32;
};

// What the sets say of themselves when they are opened stands in the result too, so errors alone are
// logged.
Examination examine_with_progress(const DataOptions& options) {
  LiveText live(stderr, LiveText::Elsewhere::kLines);
  log::set_sink(terminal_sink_above(live), log::Level::kError);
  const auto show = [&](const std::string& role, int64_t done, int64_t of) {
    if (!options.talks() || !live.due()) return;
    live.show(cat("reading ", role, " data: ", format_count(done), " of ", format_count(of)));
  };
  Examination found = examine(options.load(), {.threads = usable_cores().count,
                                               .sheet_samples = options.page.empty() ? 0 : options.samples,
                                               .progress = show});
  live.clear();
  log::set_sink(log::terminal_sink(), log::Level::kWarning);
  return found;
}

ExitCode run_data(const DataOptions& options) {
  options.check_named();
  refuse_several_ranks();
  const Examination found = examine_with_progress(options);
  if (!options.page.empty()) write_file_atomically(options.page, page_of(found, options.config.string()));
  if (options.json) {
    std::fputs(text_of_json(json_of(found)).c_str(), stdout);
  } else {
    std::fputs((options.quiet ? doubts_text_of(found) : text_of(found)).c_str(), stdout);
    const std::string where = options.page.empty() ? "" : cat(" · ", options.page.string());
    std::printf("%s%s\n", closing_line(found).c_str(), where.c_str());
  }
  for (const ExaminedSet& set : found.sets) {
    if (!set.failure.empty()) return set.failure_code;
  }
  return found.faults() == 0 ? ExitCode::kDone : ExitCode::kBadData;
}

std::function<ExitCode()> declare_data(CLI::App& app) {
  const auto options = std::make_shared<DataOptions>();
  options->RecipeOptions::declare(app);
  options->PrintOptions::declare(app);
  app.add_option("--page", options->page, "Also write a page with distributions and a sheet of samples")
      ->type_name("FILE.html");
  app.add_option("--samples", options->samples, "Images of each set on the page's sheet")
      ->check(number_from(1, 1024))
      ->capture_default_str();
  return [options] { return run_data(*options); };
}

constexpr const char* kDataExamples = R"(
Examples:
  autotrain data --config R.yaml
      reads all of the data, trains nothing: columns, classes, sizes, and what
      may not be what you meant, with its place and what helps
  autotrain data --config R.yaml --page data.html
      also a page with distributions and images as the model gets them
  autotrain data --config R.yaml --json
      the same as JSON; the exit code is 65 when a run would stop at the data
)";

}  // namespace

extern const Command kData;
const Command kData = {"data", "Read the data; say what was understood, and what is doubtful", kDataExamples,
                       declare_data};

}  // namespace autotrain
