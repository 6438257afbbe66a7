#include <cstdio>

#include "cli/command.h"
#include "recipe/writer.h"
#include "state/catalog.h"

namespace autotrain {
namespace {

// A command that takes nothing and prints what describes recipes.
template <auto kWrite>
std::function<ExitCode()> declare_printing(CLI::App&) {
  return [] {
    std::fputs(kWrite(catalog()).c_str(), stdout);
    return ExitCode::kDone;
  };
}

}  // namespace

extern const Command kConfig, kSchema;

const Command kConfig = {"config", "Print every key of a recipe with its default, range and unit", R"(
Examples:
  autotrain config > configs/reference.yaml
      the reference of all keys, in a file
)",
                         declare_printing<write_reference>};

const Command kSchema = {"schema", "Print the JSON Schema of recipes, for editors", R"(
Examples:
  autotrain schema > recipe.schema.json
      a JSON Schema with which editors complete and check recipes
)",
                         declare_printing<write_schema>};

}  // namespace autotrain
