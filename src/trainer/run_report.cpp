#include "trainer/run_report.h"

#include <algorithm>
#include <array>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "base/files.h"
#include "base/text.h"
#include "base/units.h"
#include "plan/plan_enums.h"
#include "plan/plan_json.h"
#include "plan/plan_words.h"
#include "recipe/compare.h"
#include "recipe/load.h"
#include "report/run_csv.h"
#include "setup/start_table.h"
#include "state/catalog.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

std::string rate_sentence(const BatchPlan& plan) {
  const LearningRatePlan& lr = plan.lr;
  if (!plan.stages.empty()) return cat("Updates, ", join(stages_in_words(plan), "; "), ".");
  return cat("The learning rate ", brief(lr.base), " at ", lr.reference_batch, " samples became ",
             brief(lr.scaled), " (rule ", lr.rule, ").");
}

std::vector<std::string> sentences_of(const BatchPlan& plan) {
  return {cat("On ", plan.device, " (", plan.device_name, ") in ", to_string(plan.precision), ", ",
              plan.stages.empty() ? "every" : "the largest", " update learns from ",
              format_count(plan.effective_batch), " samples: ", plan.window,
              plan.window == 1 ? " micro-batch of " : " micro-batches of ", format_count(plan.micro_batch),
              plan.world_size == 1 ? "" : cat(" on each of ", plan.world_size, " ranks"), ", at a peak of ",
              format_bytes(plan.peak_bytes), ", ", format_percent(plan.fill), " of the budget of ",
              format_bytes(plan.budget_bytes), "."),
          cat("The capacity is ", format_count(plan.search.micro_batch), " samples (",
              format_percent(plan.search.fill), " of the budget): ", reason_in_words(plan), ". ",
              plan.search.from_cache ? "Taken from a kept plan; " : "", plan.search.probes.size(),
              plan.search.probes.size() == 1 ? " trial in " : " trials in ",
              format_seconds(plan.search.seconds), "."),
          rate_sentence(plan)};
}

// A file that is damaged, or of another version, adds nothing to the page.
RunPageExtras extras_of(const fs::path& folder) {
  RunPageExtras extras;
  try {
    const auto plan = nlohmann::ordered_json::parse(read_file(folder / "plan.json"));
    extras.plan_sentences = sentences_of(plan_from_json(plan));
  } catch (const std::exception& error) {
    log::debug("report", cat("plan.json: ", error.what()));
  }
  try {
    const Recipe recipe = load_recipe_text(read_file(folder / "recipe.yaml"), "recipe.yaml", catalog());
    for (const KeyDifference& key : changed_keys(recipe, catalog())) {
      extras.changed_keys.push_back({key.path, key.before, key.after});
    }
  } catch (const std::exception& error) {
    log::debug("report", cat("recipe.yaml: ", error.what()));
  }
  return extras;
}

}  // namespace

std::vector<fs::path> draw_run(const fs::path& folder, const ReportRecipe& what) {
  std::vector<fs::path> written;
  if (!what.html && !what.csv) return written;
  const RunHistory history = read_history(folder / "metrics.jsonl");
  if (what.csv) {
    const std::vector<fs::path> tables = write_csv_files(folder, history);
    written.insert(written.end(), tables.begin(), tables.end());
  }
  if (what.html) {
    write_file_atomically(folder / "report.html", render(run_page(folder, history, extras_of(folder))));
    written.push_back(folder / "report.html");
  }
  return written;
}

bool is_run_folder(const fs::path& folder) {
  constexpr std::array kFiles = {"recipe.yaml", "metrics.jsonl", "plan.json", "summary.json"};
  return std::any_of(kFiles.begin(), kFiles.end(), [&](const char* name) {
    std::error_code ignored;
    return fs::exists(folder / name, ignored);
  });
}

}  // namespace autotrain
