#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "autotrain/log.h"
#include "autotrain/trainer.h"
#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/common_options.h"
#include "report/table.h"
#include "verify/verify.h"

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
    path_ = make_temporary_folder("autotrain-verify");
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

struct VerifyCommandOptions : RecipeOptions, PrintOptions, OutputOption {
  int64_t updates = 12;
  int64_t kills = 4;
  std::optional<int64_t> ranks;
};

ExitCode run_verify(const VerifyCommandOptions& options) {
  refuse_several_ranks();
  const Recipe recipe = options.load();
  WorkFolder folder(options.output);
  log::set_sink(log::terminal_sink(), options.talks() ? log::Level::kInfo : log::Level::kWarning);
  if (options.talks())
    log::info("verify", cat("runs of ", options.updates, " updates in ", folder.path().string()));
  const VerifyOptions how{
      .folder = folder.path(), .updates = options.updates, .kills = options.kills, .ranks = options.ranks};
  const auto verdicts = verify(recipe, how, [&](const Verdict& v) {
    if (options.talks()) log::info("verify", cat(v.disturbance, ": ", to_string(v.result)));
  });
  std::fputs((options.json ? json_of(verdicts) : table_of(verdicts)).c_str(), stdout);
  const bool passed =
      std::all_of(verdicts.begin(), verdicts.end(), [](const Verdict& v) { return v.passed(); });
  if (passed) return ExitCode::kDone;
  folder.keep();
  log::warn("verify", "the runs are kept in " + folder.path().string());
  return ExitCode::kInternal;
}

std::function<ExitCode()> declare_verify(CLI::App& app) {
  const auto options = std::make_shared<VerifyCommandOptions>();
  options->RecipeOptions::declare(app);
  options->PrintOptions::declare(app);
  options->OutputOption::declare(app, "Folder to keep the runs in; default: a temporary one");
  app.add_option("--updates", options->updates, "Updates of each run")
      ->check(CLI::Range(3, 1000000))
      ->capture_default_str();
  app.add_option("--kills", options->kills, "Kills −9 of the run that is killed")
      ->check(CLI::Range(0, 1000000))
      ->capture_default_str();
  app.add_option("--ranks", options->ranks,
                 "Ranks of the runs that several make; 1: there are none; default: 2, on a CPU")
      ->check(CLI::IsMember({1, 2, 4, 8}));
  return [options] { return run_verify(*options); };
}

constexpr const char* kVerifyExamples = R"(
Examples:
  autotrain verify --config R.yaml
      kill, stop, starve and resume short runs of the recipe: each must end with
      the same bytes
  autotrain verify --config R.yaml --updates 50 --kills 20 --output runs/verify
      longer runs, killed more often, kept to look at
)";

}  // namespace

extern const Command kVerify;
const Command kVerify = {"verify", "Prove on a recipe that kills and short memory change no result",
                         kVerifyExamples, declare_verify};

}  // namespace autotrain
