#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "autotrain/log.h"
#include "base/files.h"
#include "base/json.h"
#include "cli/command.h"
#include "cli/common_options.h"
#include "compare/compare_page.h"
#include "report/run_page.h"
#include "sweep/decode_page.h"
#include "sweep/serving_page.h"
#include "sweep/sweep_page.h"
#include "trainer/run_report.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

using Json = nlohmann::ordered_json;

// A kind of thing that a folder may hold, and how its page is drawn. A folder is of the first kind that it
// holds.
struct FolderKind {
  bool (*holds)(const fs::path& folder);
  std::vector<fs::path> (*draw)(const fs::path& folder);  ///< @return the files written
};

const std::vector<FolderKind>& folder_kinds() {
  static const std::vector<FolderKind> kinds = {
      {is_run_folder, [](const fs::path& folder) { return draw_run(folder, {}); }},
      {is_sweep_folder, draw_sweep},
      {is_decode_folder, draw_decode},
      {is_serving_folder, draw_serving},
      {is_comparison_folder, draw_comparison},
  };
  return kinds;
}

std::vector<fs::path> draw(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) {
    throw Error(ExitCode::kMissingFile, folder.string(), "is no folder",
                "name the folder of a run, such as runs/NAME-1");
  }
  for (const FolderKind& kind : folder_kinds()) {
    if (kind.holds(folder)) return kind.draw(folder);
  }
  if (fs::exists(folder / "study.json")) {
    throw Error(ExitCode::kMissingFile, folder.string(), "holds a study of which nothing is finished yet",
                "the command that began it goes on with --output " + folder.string());
  }
  throw Error(ExitCode::kMissingFile, folder.string(), "holds nothing to draw",
              "name the folder of a run: it has recipe.yaml, plan.json and metrics.jsonl");
}

fs::path draw_together(const std::vector<fs::path>& folders, const fs::path& page) {
  std::vector<NamedHistory> runs;
  for (const fs::path& folder : folders) {
    if (!is_run_folder(folder))
      throw Error(ExitCode::kMissingFile, folder.string(), "holds no run", "name folders of runs");
    runs.push_back({folder.string(), read_history(folder / "metrics.jsonl")});
  }
  write_file_atomically(page, render(together_page(runs)));
  return page;
}

struct ReportOptions : PrintOptions {
  std::vector<fs::path> folders;
  fs::path together;  ///< one page of all of them; empty: each its own
};

void print(const std::vector<fs::path>& written, const ReportOptions& options) {
  Json names = Json::array();
  for (const fs::path& file : written) {
    names.push_back(file.string());
    if (options.talks()) std::printf("wrote %s\n", file.c_str());
  }
  const Json result = {{"written", names}};
  if (options.json) std::fputs(text_of_json(result).c_str(), stdout);
}

ExitCode draw_reports(const ReportOptions& options) {
  log::set_sink(log::terminal_sink(), options.verbose ? log::Level::kDebug : log::Level::kWarning);
  std::vector<fs::path> written;
  if (!options.together.empty()) {
    written.push_back(draw_together(options.folders, options.together));
  } else {
    for (const fs::path& folder : options.folders) {
      const std::vector<fs::path> files = draw(folder);
      written.insert(written.end(), files.begin(), files.end());
    }
  }
  print(written, options);
  return ExitCode::kDone;
}

std::function<ExitCode()> declare_report(CLI::App& app) {
  const auto options = std::make_shared<ReportOptions>();
  app.add_option("FOLDER", options->folders, "Folders of runs, sweeps or comparisons")->required();
  app.add_option("--together", options->together,
                 "One page with the curves of all of them, which are runs, instead")
      ->type_name("OUT.html");
  options->PrintOptions::declare(app);
  return [options] { return draw_reports(*options); };
}

constexpr const char* kReportExamples = R"(
Examples:
  autotrain report runs/a
      report.html and the CSV files of a run, a sweep or a comparison
  autotrain report runs/a runs/b --together both.html
      the curves of both on one page
)";

}  // namespace

extern const Command kReport;
const Command kReport = {"report", "Draw report.html and the CSV files of runs anew", kReportExamples,
                         declare_report};

}  // namespace autotrain
