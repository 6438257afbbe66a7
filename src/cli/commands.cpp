#include <CLI/CLI.hpp>
#include <cstdio>

#include "base/text.h"
#include "base/version.h"
#include "cli/command.h"

namespace autotrain {

extern const Command kTrain, kPlan, kVerify, kDoctor, kAdvise, kLr, kCompare, kSweep, kEvaluate, kPredict,
    kExport, kReport, kConfig, kSchema;

const std::vector<const Command*>& commands() {
  static const std::vector<const Command*> all = {&kTrain,  &kPlan,    &kVerify, &kDoctor,   &kAdvise,
                                                  &kLr,     &kCompare, &kSweep,  &kEvaluate, &kPredict,
                                                  &kExport, &kReport,  &kConfig, &kSchema};
  return all;
}

namespace {

constexpr const char* kExitCodes = R"(
Exit codes: 0 done, 64 usage, 65 bad data, 66 missing file, 70 internal, 71 does not fit,
72 device lost, 74 I/O, 75 interrupted (resumable), 76 diverged, 77 code of one's own breaks its promise, 78 bad recipe.
)";

ExitCode print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  return ExitCode::kDone;
}

// A command that was declared, and what runs it.
struct Declared {
  CLI::App* app;
  std::function<ExitCode()> run;
};

Declared declare(const Command& command, CLI::App& program) {
  const bool has_name = *command.name != '\0';
  CLI::App* const app = has_name ? program.add_subcommand(command.name, command.sentence) : &program;
  app->footer(std::string(command.examples) + kExitCodes);
  return {app, command.declare(*app)};
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

}  // namespace

ExitCode run_command_line(int argc, const char* const* argv) {
  CLI::App program(std::string(commands().front()->sentence) + "\n", "autotrain");
  program.set_version_flag("--version", std::string("autotrain ") + version());
  program.require_subcommand(0, 1);
  std::vector<Declared> declared;
  for (const Command* command : commands()) declared.push_back(declare(*command, program));
  try {
    program.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    if (program.remaining().empty()) return print(program.help());
    throw Error(ExitCode::kUsage, "command line",
                "knows nothing called " + quote(program.remaining().front()),
                "autotrain --help shows the commands; training is autotrain --config R.yaml");
  } catch (const CLI::CallForVersion& version) {
    return print(std::string(version.what()) + "\n");
  } catch (const CLI::ParseError& error) {
    throw Error(ExitCode::kUsage, "command line", error.what(),
                named_command(program) + " --help shows examples");
  }
  for (size_t i = 1; i < declared.size(); ++i) {
    if (!declared[i].app->parsed()) continue;
    refuse_options_before(program, commands()[i]->name);
    return declared[i].run();
  }
  return declared.front().run();
}

}  // namespace autotrain
