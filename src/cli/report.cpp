#include "cli/report.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

#include "autotrain/log.h"
#include "base/files.h"
#include "report/json_text.h"
#include "report/run_page.h"
#include "study/compare_page.h"
#include "study/sweep_page.h"
#include "trainer/run_report.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

using Json = nlohmann::ordered_json;

// What a folder may hold, and how its page is drawn. A folder is of the first kind that it holds.
struct FolderKind {
  bool (*holds)(const fs::path& folder);
  std::vector<fs::path> (*draw)(const fs::path& folder);  ///< @return the files written
};

const std::vector<FolderKind>& folder_kinds() {
  static const std::vector<FolderKind> kinds = {
      {is_run_folder, [](const fs::path& folder) { return draw_run(folder, {}); }},
      {is_sweep_folder, draw_sweep},
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

void print(const std::vector<fs::path>& written, const Options& options) {
  Json names = Json::array();
  for (const fs::path& file : written) {
    names.push_back(file.string());
    if (!options.json && !options.quiet) std::printf("wrote %s\n", file.c_str());
  }
  const Json result = {{"written", names}};
  if (options.json) std::fputs(text_of_json(result).c_str(), stdout);
}

}  // namespace

ExitCode report_command(const Options& options) {
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

}  // namespace autotrain
