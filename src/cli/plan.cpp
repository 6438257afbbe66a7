#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "base/interrupt.h"
#include "base/json.h"
#include "cli/alternatives.h"
#include "cli/command.h"
#include "cli/common_options.h"
#include "cli/console.h"
#include "cli/local_ranks.h"
#include "cli/peak.h"
#include "comm/launch.h"
#include "plan/plan_json.h"

namespace autotrain {
namespace {

struct PlanOptions : RecipeOptions, PrintOptions, RanksOption {
  bool alternatives = false;
  bool peak = false;
};

void print_plan(const BatchPlan& plan, const std::vector<Alternative>& alternatives,
                const std::optional<PeakTrace>& peak, bool json) {
  if (!json) {
    std::printf("%s", plan_text(plan).c_str());
    if (!alternatives.empty()) std::printf("\n%s", alternatives_text(alternatives).c_str());
    if (peak) std::printf("\n%s", peak_text(*peak).c_str());
    return;
  }
  nlohmann::ordered_json out = plan_to_json(plan);
  for (const Alternative& row : alternatives) {
    out["alternatives"].push_back(
        {{"precision", to_string(row.precision)},
         {"recompute", row.recompute == Recompute::kOn ? "on" : "off"},
         {"plan", row.plan ? plan_to_json(*row.plan) : nlohmann::ordered_json(nullptr)},
         {"why_not", row.why_not}});
  }
  if (peak) out["peak"] = peak_to_json(*peak);
  std::fputs(text_of_json(out).c_str(), stdout);
}

// The first rank prints what all of them find.
ExitCode plan_beside_the_first(const PlanOptions& options, const Recipe& recipe, int64_t rank) {
  RankLog log(rank, options);
  const TrainerOptions with{.write_files = false, .fresh_plan = options.fresh_plan, .observer = &log};
  const BatchPlan plan = Trainer::from_recipe(recipe, with).plan();
  if (options.alternatives) plan_alternatives(recipe, plan, with);
  return ExitCode::kDone;
}

ExitCode print_plan_of(const PlanOptions& options) {
  if (options.peak && options.starts_them())
    throw Error(ExitCode::kUsage, "--peak", "is of one process, not of several ranks", "leave --ranks out");
  if (options.starts_them()) return run_local_ranks(options.ranks, options.config);
  const Recipe recipe = options.load();
  install_signal_handlers();
  const int64_t rank = detect_launch(process_environment()).place.rank;
  if (rank > 0) return plan_beside_the_first(options, recipe, rank);
  Console console(options);
  const TrainerOptions with{
      .write_files = false, .fresh_plan = options.fresh_plan, .search_apart = true, .observer = &console};
  // Each trainer gives its memory back before the next one measures.
  const BatchPlan plan = Trainer::from_recipe(recipe, with).plan();
  const auto alternatives =
      options.alternatives ? plan_alternatives(recipe, plan, with) : std::vector<Alternative>{};
  const auto peak = options.peak ? std::optional(peak_of(recipe, plan)) : std::nullopt;
  if (options.quiet && !options.json) {
    std::printf("%s\n", summary_line(plan).c_str());
  } else {
    print_plan(plan, alternatives, peak, options.json);
  }
  return ExitCode::kDone;
}

std::function<ExitCode()> declare_plan(CLI::App& app) {
  const auto options = std::make_shared<PlanOptions>();
  options->RecipeOptions::declare(app);
  options->PrintOptions::declare(app);
  options->RanksOption::declare(app);
  app.add_flag("--alternatives", options->alternatives,
               "Also search in the other precision, and with and without execution.recompute");
  app.add_flag("--peak", options->peak,
               "Also run one update and say when it holds the most memory, and which tensors are there then");
  return [options] { return print_plan_of(*options); };
}

constexpr const char* kPlanExamples = R"(
Examples:
  autotrain plan --config R.yaml
      what a run would execute on this machine, and how it was found; writes
      nothing
  autotrain plan --config R.yaml --set execution.memory.budget=512MiB
      the same within 512 MiB
  autotrain plan --config R.yaml --alternatives
      beside the plan in the other precision
  autotrain plan --config R.yaml --peak
      which tensors fill the memory, what made them and what they are kept for
  autotrain plan --config R.yaml --fresh-plan --json
      search anew instead of taking a kept plan; every trial as JSON
)";

}  // namespace

extern const Command kPlan;
const Command kPlan = {"plan", "Search only; print the plan and its trials", kPlanExamples, declare_plan};

}  // namespace autotrain
