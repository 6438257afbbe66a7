#include "cli/common_options.h"

#include <CLI/CLI.hpp>

#include "autotrain/error.h"
#include "autotrain/trainer.h"
#include "base/text.h"
#include "comm/launch.h"

namespace autotrain {

void OverrideOptions::declare(CLI::App& app, const char* sentence) {
  app.add_option("--set", overrides, sentence)
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void RecipeOptions::declare(CLI::App& app) {
  command_ = cat("autotrain ", app.get_parent() == nullptr ? "train" : app.get_name());
  app.add_option("-c,--config", config, "The recipe, a YAML file")->type_name("FILE");
  OverrideOptions::declare(app, "Override a key of the recipe: section.key=value; repeatable");
  app.add_flag("--fresh-plan", fresh_plan, "Search anew instead of taking a kept plan");
}

void RecipeOptions::check_named() const {
  if (!config.empty()) return;
  throw Error(ExitCode::kUsage, "command line", "names no recipe",
              command_ + " --config recipes/fashion_mnist_cnn.yaml");
}

Recipe RecipeOptions::load() const {
  check_named();
  return load_recipe(config, overrides);
}

void PrintOptions::declare(CLI::App& app) {
  app.add_flag("-q,--quiet", quiet, "Show only warnings, errors and the last line");
  app.add_flag("-v,--verbose", verbose, "Show also what helps to find a fault");
  app.add_flag("--json", json, "Print the result as JSON on standard output, nothing else there");
}

log::Level PrintOptions::log_level() const {
  if (verbose) return log::Level::kDebug;
  return talks() ? log::Level::kInfo : log::Level::kWarning;
}

std::string no_positive_number(const std::string& given) {
  double number = 0;
  if (parse_real(given, number) && number > 0) return "";
  return quote(given) + " is no number above 0";
}

CLI::Validator number_from(double least, double most) {
  const std::string range = cat(shortest(least), " to ", shortest(most));
  return {[=](const std::string& given) -> std::string {
            double number = 0;
            if (parse_real(given, number) && number >= least && number <= most) return "";
            return cat(quote(given), " is no number from ", range);
          },
          range};
}

void refuse_options(const CLI::App& app, std::initializer_list<const char*> names, const std::string& problem,
                    const std::string& advice) {
  for (const char* const name : names) {
    if (app.count(name) > 0) throw Error(ExitCode::kUsage, name, problem, advice);
  }
}

void refuse_without(const std::string& other, const CLI::App& app, std::initializer_list<const char*> names) {
  refuse_options(app, names, cat("means something with ", other, " only"),
                 cat("leave it out, or add ", other));
}

void refuse_several_ranks() {
  const Launch launch = detect_launch(process_environment());
  if (launch.place.world == 1) return;
  throw Error(ExitCode::kUsage, to_string(launch.by),
              cat("started ", launch.place.world, " ranks, and this command computes in one process"),
              "start one: torchrun --no-python --nproc-per-node 1, or srun --ntasks 1");
}

void OutputOption::declare(CLI::App& app, const char* sentence) {
  app.add_option("-o,--output", output, sentence)->type_name("DIR")->each([](const std::string& given) {
    if (!given.empty()) return;
    throw Error(ExitCode::kUsage, "--output", "is empty", "name a folder; an unset variable leaves nothing");
  });
}

}  // namespace autotrain
