#include <algorithm>
#include <cstdio>
#include <exception>
#include <string_view>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "autotrain/trainer.h"
#include "base/heap_refused.h"
#include "base/interrupt.h"
#include "base/text.h"
#include "cli/alternatives.h"
#include "cli/compare.h"
#include "cli/console.h"
#include "cli/doctor.h"
#include "cli/options.h"
#include "cli/report.h"
#include "cli/sweep.h"
#include "cli/verify.h"
#include "plan/plan_json.h"
#include "recipe/writer.h"
#include "report/json_text.h"
#include "report/metrics_file.h"
#include "trainer/catalog.h"

namespace autotrain {
namespace {

Console::Detail detail_of(const Options& options) {
  if (options.json) return Console::Detail::kNothing;
  return options.quiet ? Console::Detail::kLastLine : Console::Detail::kAll;
}

TrainerOptions trainer_options(const Options& options, RunObserver& observer) {
  return {.output = options.output,
          .resume = options.resume,
          .allow_change = options.allow_change,
          .fresh_plan = options.fresh_plan,
          .search_apart = true,
          .observer = &observer};
}

ExitCode train(const Options& options, Console& console) {
  Trainer trainer =
      Trainer::from_recipe(load_recipe(options.config, options.overrides), trainer_options(options, console));
  const Summary summary = trainer.fit();
  if (options.json) std::fputs(text_of_json(summary_to_json(summary)).c_str(), stdout);
  const bool resumable = summary.status == "interrupted" && !options.json;
  if (resumable) {
    // The run's own recipe has every --set in it.
    std::printf("go on with: autotrain --config %s/recipe.yaml --output %s --resume\n",
                summary.folder.c_str(), summary.folder.c_str());
  }
  return static_cast<ExitCode>(summary.exit_code);
}

void print_plan(const BatchPlan& plan, const std::vector<Alternative>& alternatives, bool json) {
  if (!json) {
    std::printf("%s", plan_text(plan).c_str());
    if (!alternatives.empty()) std::printf("\n%s", alternatives_text(alternatives).c_str());
    return;
  }
  nlohmann::ordered_json out = plan_to_json(plan);
  for (const Alternative& row : alternatives) {
    out["alternatives"].push_back(
        {{"precision", to_string(row.precision)},
         {"plan", row.plan ? plan_to_json(*row.plan) : nlohmann::ordered_json(nullptr)},
         {"why_not", row.why_not}});
  }
  std::fputs(text_of_json(out).c_str(), stdout);
}

ExitCode plan(const Options& options, Console& console) {
  TrainerOptions with = trainer_options(options, console);
  with.write_files = false;
  const Recipe recipe = load_recipe(options.config, options.overrides);
  // Each trainer gives its memory back before the next one measures.
  const BatchPlan plan = Trainer::from_recipe(recipe, with).plan();
  const auto alternatives =
      options.alternatives ? plan_alternatives(recipe, plan, with) : std::vector<Alternative>{};
  if (options.quiet && !options.json) {
    std::printf("%s\n", summary_line(plan).c_str());
  } else {
    print_plan(plan, alternatives, options.json);
  }
  return ExitCode::kDone;
}

ExitCode run(const Options& options) {
  if (options.command == Command::kHelp) return std::fputs(options.help.c_str(), stdout), ExitCode::kDone;
  if (options.command == Command::kConfig)
    return std::fputs(write_reference(catalog()).c_str(), stdout), ExitCode::kDone;
  if (options.command == Command::kSchema)
    return std::fputs(write_schema(catalog()).c_str(), stdout), ExitCode::kDone;
  if (options.command == Command::kVerify) return verify_command(options);
  if (options.command == Command::kDoctor) return doctor_command(options);
  if (options.command == Command::kCompare) return compare_command(options);
  if (options.command == Command::kSweep)
    return options.converge ? converge_command(options) : sweep_command(options);
  if (options.command == Command::kReport) return report_command(options);
  install_signal_handlers();
  Console console(detail_of(options), options.verbose ? log::Level::kDebug : log::Level::kInfo);
  return options.command == Command::kPlan ? plan(options, console) : train(options, console);
}

// With --json, a program that reads standard output learns of it there.
int fail(ExitCode code, const std::string& text, bool json) {
  std::fprintf(stderr, "error: %s\n", text.c_str());
  const nlohmann::ordered_json failure = {{"error", text}, {"exit_code", static_cast<int>(code)}};
  if (json) std::fputs(text_of_json(failure).c_str(), stdout);
  return static_cast<int>(code);
}

}  // namespace
}  // namespace autotrain

int main(int argc, char** argv) {
  using namespace autotrain;
  // Known even when the rest of the command line is wrong.
  const bool json =
      std::any_of(argv, argv + argc, [](const char* word) { return std::string_view(word) == "--json"; });
  try {
    const ExitCode code = run(parse_options(argc, argv));
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
      return fail(ExitCode::kInputOutput, "standard output: writing failed\n  try: is the disk full?", false);
    }
    return static_cast<int>(code);
  } catch (const Error& error) {
    return fail(error.code(), error.what(), json);
  } catch (const std::bad_alloc&) {
    const Error error = heap_refused();
    return fail(error.code(), error.what(), json);
  } catch (const std::exception& error) {
    return fail(ExitCode::kInternal,
                cat("internal: ", error.what(), "\n  this is a bug of autotrain; please report it"), json);
  }
}
