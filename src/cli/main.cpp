#include <cstdio>
#include <exception>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "autotrain/trainer.h"
#include "base/interrupt.h"
#include "base/text.h"
#include "cli/console.h"
#include "cli/options.h"
#include "plan/plan_json.h"
#include "recipe/writer.h"
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
          .observer = &observer};
}

ExitCode train(const Options& options, Console& console) {
  Trainer trainer =
      Trainer::from_recipe(load_recipe(options.config, options.overrides), trainer_options(options, console));
  const Summary summary = trainer.fit();
  if (options.json) std::printf("%s\n", summary_to_json(summary).dump(2).c_str());
  return static_cast<ExitCode>(summary.exit_code);
}

ExitCode plan(const Options& options, Console& console) {
  TrainerOptions with = trainer_options(options, console);
  with.write_files = false;
  Trainer trainer = Trainer::from_recipe(load_recipe(options.config, options.overrides), with);
  const BatchPlan& plan = trainer.plan();
  std::printf("%s", options.json ? (plan_to_json(plan).dump(2) + "\n").c_str() : plan_text(plan).c_str());
  return ExitCode::kDone;
}

ExitCode run(const Options& options) {
  if (options.command == Command::kHelp) return std::fputs(options.help.c_str(), stdout), ExitCode::kDone;
  if (options.command == Command::kConfig)
    return std::fputs(write_reference(catalog()).c_str(), stdout), ExitCode::kDone;
  if (options.command == Command::kSchema)
    return std::fputs(write_schema(catalog()).c_str(), stdout), ExitCode::kDone;
  install_signal_handlers();
  Console console(detail_of(options), options.verbose ? log::Level::kDebug : log::Level::kInfo);
  return options.command == Command::kPlan ? plan(options, console) : train(options, console);
}

int fail(ExitCode code, const std::string& text) {
  std::fprintf(stderr, "error: %s\n", text.c_str());
  return static_cast<int>(code);
}

}  // namespace
}  // namespace autotrain

int main(int argc, char** argv) {
  using namespace autotrain;
  try {
    return static_cast<int>(run(parse_options(argc, argv)));
  } catch (const Error& error) {
    return fail(error.code(), error.what());
  } catch (const std::exception& error) {
    return fail(ExitCode::kInternal,
                cat("internal: ", error.what(), "\n  this is a bug of autotrain; please report it"));
  }
}
