#include "cli/verify.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "autotrain/log.h"
#include "autotrain/trainer.h"
#include "base/files.h"
#include "base/text.h"
#include "report/json_text.h"
#include "report/table.h"
#include "study/verify.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

// A folder that is removed at the end unless the user named it or something in it is worth a look.
class WorkFolder {
 public:
  explicit WorkFolder(const fs::path& asked) : path_(asked), keep_(!asked.empty()) {
    if (keep_ && fs::exists(asked)) {
      throw Error(ExitCode::kUsage, asked.string(), "exists already", "name a folder that does not exist");
    }
    if (keep_) return;
    std::string name = (fs::temp_directory_path() / "autotrain-verify-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw_io_error(name, "making the folder");
    path_ = name;
  }
  ~WorkFolder() {
    std::error_code ignored;
    if (!keep_) fs::remove_all(path_, ignored);
  }
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;

  const fs::path& path() const { return path_; }
  void keep() { keep_ = true; }

 private:
  fs::path path_;
  bool keep_;
};

std::string table_of(const std::vector<Verdict>& verdicts) {
  TextTable table({"what happened to the run", "compared with the undisturbed one", ""});
  for (const Verdict& v : verdicts) table.add_row({v.disturbance, to_string(v.result), v.detail});
  return table.text();
}

std::string json_of(const std::vector<Verdict>& verdicts) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const Verdict& v : verdicts) {
    rows.push_back({{"disturbance", v.disturbance}, {"result", to_string(v.result)}, {"detail", v.detail}});
  }
  return text_of_json(rows);
}

}  // namespace

ExitCode verify_command(const Options& options) {
  const Recipe recipe = load_recipe(options.config, options.overrides);
  WorkFolder folder(options.output);
  const bool talks = !options.json && !options.quiet;
  log::set_sink(log::terminal_sink(), talks ? log::Level::kInfo : log::Level::kWarning);
  if (talks)
    log::info("verify", cat("runs of ", options.verify_updates, " updates in ", folder.path().string()));
  const auto verdicts = verify(
      recipe, {.folder = folder.path(), .updates = options.verify_updates, .kills = options.verify_kills},
      [&](const Verdict& v) {
        if (talks) log::info("verify", cat(v.disturbance, ": ", to_string(v.result)));
      });
  std::fputs((options.json ? json_of(verdicts) : table_of(verdicts)).c_str(), stdout);
  const bool passed =
      std::all_of(verdicts.begin(), verdicts.end(), [](const Verdict& v) { return v.passed(); });
  if (passed) return ExitCode::kDone;
  folder.keep();
  log::warn("verify", "the runs are kept in " + folder.path().string());
  return ExitCode::kInternal;
}

}  // namespace autotrain
