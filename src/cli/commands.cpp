#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "base/text.h"
#include "base/version.h"
#include "cli/command.h"
#include "cli/help.h"
#include "recipe/reader.h"
#include "state/catalog.h"

namespace autotrain {

extern const Command kTrain, kData, kPlan, kVerify, kDoctor, kAdvise, kLr, kCompare, kSweep, kEvaluate,
    kPredict, kExport, kCompress, kReport, kConfig, kSchema;

namespace {

struct CommandGroup {
  const char* title;
  std::vector<const Command*> commands;
};

const std::vector<CommandGroup>& command_groups() {
  static const std::vector<CommandGroup> groups = {
      {"Train", {&kTrain, &kData, &kConfig, &kSchema}},
      {"Plan and find", {&kPlan, &kLr, &kAdvise}},
      {"Use a run", {&kEvaluate, &kPredict, &kExport, &kCompress, &kReport}},
      {"Compare and study", {&kCompare, &kSweep}},
      {"Machine", {&kDoctor, &kVerify}},
  };
  return groups;
}

constexpr const char* kSentence = "Finds the batch size that fills a memory budget, and trains with it.";

constexpr const char* kUsage = R"(
Usage: autotrain COMMAND [OPTIONS]
       autotrain --config RECIPE.yaml [OPTIONS]    short for autotrain train
       autotrain --version
)";

constexpr const char* kFirstSteps = R"(
First steps:
  autotrain train --config recipes/smoke.yaml
      seconds, on made-up images, to see that everything works
  autotrain COMMAND --help
      what a command takes, with examples

Exit codes: 0 done, 64 usage, 65 bad data, 66 missing file, 70 internal,
71 does not fit, 72 device lost, 74 I/O, 75 interrupted (resumable),
76 diverged, 77 code of one's own breaks its promise, 78 bad recipe.
)";

std::string program_help() {
  constexpr size_t kColumn = 12;
  std::string help = kUsage;
  for (const CommandGroup& group : command_groups()) {
    help += cat("\n", group.title, "\n");
    for (const Command* command : group.commands) help += help_row(command->name, command->sentence, kColumn);
  }
  return help + kFirstSteps;
}

ExitCode print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  return ExitCode::kDone;
}

// A command that was declared, and what runs it.
struct Declared {
  CLI::App* app;
  std::function<ExitCode()> run;
};

// Whole numbers are read as recipes read them. CLI11 takes those that begin with a zero for octal ones, and
// the largest that there is for one that is larger.
void read_numbers_as_recipes_do(CLI::App& app) {
  const CLI::Validator as_in_recipes(
      [](std::string& text) -> std::string {
        int64_t number = 0;
        if (!parse_integer(text, number)) return cat(quote(text), " is no whole number");
        text = std::to_string(number);
        return "";
      },
      "");
  for (CLI::Option* option : app.get_options()) {
    if (option->get_type_name().starts_with("INT")) option->transform(as_in_recipes);
  }
}

std::vector<Declared> declare_commands(CLI::App& program) {
  std::vector<Declared> declared;
  for (const CommandGroup& group : command_groups()) {
    for (const Command* command : group.commands) {
      CLI::App* const app = program.add_subcommand(command->name, command->sentence);
      app->footer(command->examples);
      declared.push_back({app, command->declare(*app)});
      read_numbers_as_recipes_do(*app);
    }
  }
  return declared;
}

// They are those of training, and another command would not see them.
void refuse_options_before(const CLI::App& program, const std::string& command) {
  for (const CLI::Option* option : program.get_options()) {
    if (option->count() == 0) continue;
    const std::string name = option->get_name();
    throw Error(ExitCode::kUsage, "command line", cat(name, " stands before the command ", command),
                cat("autotrain ", command, " ", name, " …"));
  }
}

// "autotrain predict", of the command that was named.
std::string named_command(const CLI::App& program) {
  const std::vector<CLI::App*> commands = program.get_subcommands();
  return commands.empty() ? "autotrain" : "autotrain " + commands.front()->get_name();
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// Of an option that another command takes, which ones do.
std::string other_takers(const std::vector<Declared>& declared, const std::string& option) {
  std::vector<std::string> takers;
  for (const Declared& command : declared) {
    if (command.app->get_option_no_throw(option) != nullptr) takers.push_back(command.app->get_name());
  }
  return takers.empty() ? "" : "it is an option of " + join_choices(takers);
}

// Of what recipes say, which others have as options: "--epochs".
std::string hint_for_key(const CLI::App& app, const std::string& option) {
  if (app.get_option_no_throw("--set") == nullptr || !option.starts_with("--")) return "";
  std::string key = option.substr(2);
  std::ranges::replace(key, '-', '_');
  const std::string place = place_of_key(key, catalog());
  if (place.empty() || place.starts_with("the option")) return place;
  return cat("keys of a recipe are set by --set KEY=VALUE, and what ", option, " means is ", place);
}

std::string hint_for_option(const CLI::App& app, const std::vector<Declared>& declared,
                            const std::string& option) {
  const std::string takers = other_takers(declared, option);
  if (const std::string hint = hint_for_key(app, option); !hint.empty())
    return takers.empty() ? hint : cat(hint, "; ", takers);
  if (const std::string near = nearest(option, option_names(app)); !near.empty())
    return cat("did you mean ", near, "?");
  return takers;
}

// What others call some of the commands.
constexpr std::pair<const char*, const char*> kCommandsElsewhere[] = {
    {"bench", "sweep"},   {"benchmark", "sweep"}, {"eval", "evaluate"},     {"find", "plan"},
    {"fit", "train"},     {"infer", "predict"},   {"inference", "predict"}, {"run", "train"},
    {"test", "evaluate"}, {"tune", "compare"},    {"val", "evaluate"},      {"validate", "evaluate"}};

std::string hint_for_word(const CLI::App& program, const std::vector<Declared>& declared,
                          const std::string& word) {
  if (word.ends_with(".yaml") || word.ends_with(".yml"))
    return cat("a recipe stands behind --config: autotrain ",
               program.get_subcommands().empty() ? "train" : program.get_subcommands().front()->get_name(),
               " --config ", word);
  std::vector<std::string> names;
  for (const Declared& command : declared) names.push_back(command.app->get_name());
  const auto* const other =
      std::ranges::find(kCommandsElsewhere, word, &std::pair<const char*, const char*>::first);
  const bool is_known = other != std::end(kCommandsElsewhere);
  const std::string near = !program.get_subcommands().empty() ? ""
                           : is_known                         ? other->second
                                                              : nearest(word, names);
  return near.empty() ? "" : cat("did you mean autotrain ", near, "?");
}

// Says what is like the first word that nobody takes.
[[noreturn]] void fail_unknown(const CLI::App& program, const std::vector<Declared>& declared) {
  const std::string word = program.remaining(true).front();
  const std::vector<CLI::App*> commands = program.get_subcommands();
  const CLI::App& app = commands.empty() ? program : *commands.front();
  const std::string option = word.starts_with("-") ? word.substr(0, word.find('=')) : "";
  std::string hint =
      option.empty() ? hint_for_word(program, declared, word) : hint_for_option(app, declared, option);
  if (hint.empty())
    hint = cat(named_command(program),
               commands.empty() ? " --help lists the commands" : " --help lists its options");
  throw Error(
      ExitCode::kUsage, named_command(program),
      cat(option.empty() ? "knows nothing called " : "has no option ", quote(option.empty() ? word : option)),
      hint);
}

}  // namespace

ExitCode run_command_line(int argc, const char* const* argv) {
  CLI::App program(kSentence, "autotrain");
  program.formatter(std::make_shared<HelpFormatter>());
  program.set_version_flag("--version", std::string("autotrain ") + version());
  program.require_subcommand(0, 1);
  program.footer(program_help());
  const std::vector<Declared> declared = declare_commands(program);
  const std::function<ExitCode()> train = kTrain.declare(program);
  read_numbers_as_recipes_do(program);
  if (argc == 1)
    throw Error(
        ExitCode::kUsage, "command line", "names neither a command nor a recipe",
        "autotrain train --config recipes/fashion_mnist_cnn.yaml; autotrain --help lists the commands");
  try {
    program.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    if (!program.remaining().empty()) fail_unknown(program, declared);
    return print(program.help());
  } catch (const CLI::CallForVersion& version) {
    return print(std::string(version.what()) + "\n");
  } catch (const CLI::ParseError& error) {
    if (!program.remaining(true).empty()) fail_unknown(program, declared);
    throw Error(ExitCode::kUsage, "command line", error.what(),
                named_command(program) + " --help shows examples");
  }
  for (const Declared& command : declared) {
    if (!command.app->parsed()) continue;
    refuse_options_before(program, command.app->get_name());
    return command.run();
  }
  return train();
}

}  // namespace autotrain
