#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "autotrain/trainer.h"
#include "cli/command.h"
#include "cli/common_options.h"
#include "recipe/writer.h"
#include "state/catalog.h"

namespace autotrain {
namespace {

struct ConfigOptions : OverrideOptions {
  std::filesystem::path config;
};

ExitCode print_whole(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  return ExitCode::kDone;
}

// Without a recipe, every key there is.
std::function<ExitCode()> declare_config(CLI::App& app) {
  const auto options = std::make_shared<ConfigOptions>();
  app.add_option("-c,--config", options->config, "A recipe, of which to print every key with its value")
      ->type_name("FILE");
  options->declare(app, "Override a key of the recipe: section.key=value; repeatable");
  return [options, &app] {
    if (options->config.empty()) {
      refuse_without("--config", app, {"--set"});
      return print_whole(write_reference(catalog()));
    }
    return print_whole(write_recipe(load_recipe(options->config, options->overrides), catalog()));
  };
}

std::function<ExitCode()> declare_schema(CLI::App&) {
  return [] { return print_whole(write_schema(catalog())); };
}

}  // namespace

extern const Command kConfig, kSchema;

const Command kConfig = {"config", "Print every key of a recipe with its default, range and unit", R"(
Examples:
  autotrain config > configs/reference.yaml
      the reference of all keys, in a file
  autotrain config --config recipe.yaml --set optimizer.lr=0.01
      every key with the value that it has in a run of this recipe
)",
                         declare_config};

const Command kSchema = {"schema", "Print the JSON Schema of recipes, for editors", R"(
Examples:
  autotrain schema > recipe.schema.json
      a JSON Schema with which editors complete and check recipes
)",
                         declare_schema};

}  // namespace autotrain
