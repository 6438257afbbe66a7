#include "cli/options.h"

#include <CLI/CLI.hpp>

#include "autotrain/error.h"
#include "base/text.h"
#include "base/version.h"

namespace autotrain {
namespace {

constexpr const char* kExitCodes = R"(
Exit codes: 0 done, 64 usage, 65 bad data, 66 missing file, 70 internal, 71 does not fit,
74 I/O, 75 interrupted (resumable), 76 diverged, 78 bad recipe.
)";

constexpr const char* kPlanExamples = R"(
Examples:
  autotrain plan --config R.yaml
      what a run would execute on this machine, and how it was found; writes nothing
  autotrain plan --config R.yaml --set execution.memory.budget=512MiB --alternatives
      the same within 512 MiB, beside the other precision
  autotrain plan --config R.yaml --fresh-plan --json
      search anew instead of taking a kept plan; every trial as JSON
)";

constexpr const char* kVerifyExamples = R"(
Examples:
  autotrain verify --config R.yaml
      kill, stop, starve and resume short runs of the recipe: each must end with the same bytes
  autotrain verify --config R.yaml --updates 50 --kills 20 --output runs/verify
      longer runs, killed more often, kept to look at
)";

constexpr const char* kDoctorExamples = R"(
Examples:
  autotrain doctor
      what the machine can do: memory, products, bandwidth, precisions
  autotrain doctor --config R.yaml
      what bounds the recipe's training here, which cures were tried, and what each gained
  autotrain doctor --config R.yaml --seconds 10 --json
      longer trials, where the machine is unsteady
)";

constexpr const char* kCompareExamples = R"(
Examples:
  autotrain compare A.yaml B.yaml --seeds 5
      train both with the seeds 1 to 5; which differences are real, and how many seeds would show it
  autotrain compare A.yaml B.yaml --seeds 10 --output runs/compare-1
      five seeds more of a comparison that is there; what is finished is kept
  autotrain compare A.yaml B.yaml --target accuracy=0.9 --set stop.epochs=20
      also the time, samples and updates to a figure, with a key of both recipes changed
)";

constexpr const char* kSweepExamples = R"(
Examples:
  autotrain sweep --config R.yaml --batches 1..512
      inference: latency, throughput and memory, predicted and measured knee
  autotrain sweep --config R.yaml --vary execution.precision=fp32,bf16,int8 --weights runs/a
      the same in three precisions, with the accuracy that each costs
  autotrain sweep --config R.yaml --mode training --batches auto --latency-ms 200
      updates instead, doubling until nothing is gained; the best within 200 ms
  autotrain sweep --config R.yaml --mode converge --vary batch.effective=64,256,1024 --seeds 5
      train at each effective batch with and without the learning-rate rule, and compare
)";

constexpr const char* kReportExamples = R"(
Examples:
  autotrain report runs/a
      report.html and the CSV files of a run, a sweep or a comparison, drawn anew
  autotrain report runs/a runs/b --together both.html
      the curves of both on one page
)";

constexpr const char* kExamples = R"(
Examples:
  autotrain --config recipes/fashion_mnist_cnn.yaml
      find the micro-batch, train, evaluate, checkpoint; leaves runs/fashion_mnist_cnn-1
  autotrain --config R.yaml --set optimizer.lr=0.01 --set execution.memory.budget=2GiB
      the same recipe with two keys changed; null unsets a key
  autotrain --config R.yaml --output runs/a --resume
      go on from the newest checkpoint in runs/a; without one, start there
  autotrain plan --config R.yaml
      only search: print the plan and its trials, write nothing
  autotrain verify --config R.yaml
      prove on the recipe that kills, stops, short memory and full disks change no bit
  autotrain compare A.yaml B.yaml --seeds 5 --target accuracy=0.9
      train both five times, at equal samples and equal time, and say which differences are real
  autotrain sweep --config R.yaml --batches 1..512 --vary execution.precision=fp32,bf16
      batch size against latency, throughput and memory, beside what the machine could do
  autotrain report runs/a runs/b
      draw report.html and the CSV files of two runs anew
  autotrain config > configs/reference.yaml
      every key with its default, range and unit
  autotrain schema > recipe.schema.json
      a JSON Schema with which editors complete and check recipes
)";

void add_overrides(CLI::App& app, Options& options, const char* sentence) {
  app.add_option("--set", options.overrides, sentence)
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void add_recipe_options(CLI::App& app, Options& options) {
  app.add_option("-c,--config", options.config, "The recipe, a YAML file")->type_name("FILE");
  add_overrides(app, options, "Override a key of the recipe: section.key=value; repeatable");
  app.add_flag("--fresh-plan", options.fresh_plan, "Search anew instead of taking a kept plan");
}

void add_output_options(CLI::App& app, Options& options) {
  app.add_flag("-q,--quiet", options.quiet, "Show only warnings, errors and the last line");
  app.add_flag("-v,--verbose", options.verbose, "Show also what helps to find a fault");
  app.add_flag("--json", options.json, "Print the result as JSON on standard output, nothing else there");
}

void add_output_folder(CLI::App& app, Options& options, const char* sentence) {
  app.add_option("-o,--output", options.output, sentence)->type_name("DIR");
}

void add_training(CLI::App& app, Options& options) {
  add_recipe_options(app, options);
  add_output_options(app, options);
  add_output_folder(app, options, "Run folder; default: runs/<name>-<n>, the first free n");
  app.add_flag("--resume", options.resume, "Go on from the newest checkpoint in --output");
  app.add_flag("--allow-change", options.allow_change, "Resume although the recipe changes what is learned");
}

CLI::App* add_plan(CLI::App& app, Options& options) {
  CLI::App* const plan = app.add_subcommand("plan", "Search only; print the plan and its trials");
  add_recipe_options(*plan, options);
  add_output_options(*plan, options);
  plan->add_flag("--alternatives", options.alternatives, "Also search in the other precision, side by side");
  plan->footer(std::string(kPlanExamples) + kExitCodes);
  return plan;
}

CLI::App* add_verify(CLI::App& app, Options& options) {
  CLI::App* const verify = app.add_subcommand(
      "verify", "Prove on the recipe that nothing that happens to a run changes what it computes");
  add_recipe_options(*verify, options);
  add_output_options(*verify, options);
  add_output_folder(*verify, options, "Folder to keep the runs in; default: a temporary one");
  verify->add_option("--updates", options.verify_updates, "Updates of each run")
      ->check(CLI::Range(3, 1000000))
      ->capture_default_str();
  verify->add_option("--kills", options.verify_kills, "Kills −9 of the run that is killed")
      ->check(CLI::Range(0, 1000000))
      ->capture_default_str();
  verify->footer(std::string(kVerifyExamples) + kExitCodes);
  return verify;
}

CLI::App* add_doctor(CLI::App& app, Options& options) {
  CLI::App* const doctor = app.add_subcommand(
      "doctor",
      "Measure the machine; with a recipe, say what bounds it, try cures and print before and after");
  add_recipe_options(*doctor, options);
  add_output_options(*doctor, options);
  doctor->add_option("--seconds", options.doctor_seconds, "Length of each trial")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  doctor->footer(std::string(kDoctorExamples) + kExitCodes);
  return doctor;
}

void add_comparison_options(CLI::App& app, Options& options) {
  app.add_option("--seeds", options.seeds, "Train each recipe with the seeds 1 to this")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  app.add_option("--target", options.target, "Time, samples and updates to a figure: accuracy=0.9")
      ->type_name("FIGURE=VALUE");
  app.add_option("--figure", options.figure,
                 "The figure to compare; default: the target's, else what the first recipe monitors");
  app.add_flag("--training-set", options.training_set,
               "Also evaluate the final weights on the training data: the generalisation gap");
}

CLI::App* add_compare(CLI::App& app, Options& options) {
  CLI::App* const compare =
      app.add_subcommand("compare", "Train recipes with the same seeds and say what differs, and how surely");
  compare->add_option("recipes", options.recipes, "Recipes, YAML files")->required()->type_name("FILE…");
  add_output_options(*compare, options);
  add_output_folder(*compare, options,
                    "Folder of the study, gone on with if it is there; default: runs/compare-<n>");
  add_overrides(*compare, options, "Override a key of every recipe: section.key=value; repeatable");
  add_comparison_options(*compare, options);
  compare->footer(std::string(kCompareExamples) + kExitCodes);
  return compare;
}

// Options that stand for keys of the recipe's section `sweep`.
void add_sweep_keys(CLI::App& sweep, Options& options) {
  const auto stands_for = [&](const char* option, const char* key, const char* sentence) {
    sweep.add_option_function<std::string>(
        option,
        [&options, key](const std::string& value) {
          options.sweep_settings.push_back(std::string("sweep.") + key + "=" + value);
        },
        sentence);
  };
  stands_for(
      "--batches", "batches",
      "1,32,128 or 1..4096 (powers of two, and the end) or auto (doubled to at most 4096, until nothing is "
      "gained); default: the recipe's sweep.batches, else auto");
  stands_for("--latency-ms", "latency_ms",
             "Find the largest throughput whose p99 is at most so many milliseconds");
  stands_for("--rounds", "rounds",
             "Measurements of each point, 1 to 1000; default: the recipe's sweep.rounds, else 2");
  stands_for("--seconds", "max_seconds",
             "Longest time of one measurement; default: the recipe's sweep.max_seconds, else 2");
}

CLI::App* add_sweep(CLI::App& app, Options& options) {
  CLI::App* const sweep = app.add_subcommand(
      "sweep", "Measure batch sizes: latency, throughput, memory, and where a larger one stops being free");
  add_recipe_options(*sweep, options);
  add_output_options(*sweep, options);
  add_output_folder(*sweep, options, "Folder of the results; one with results goes on where it ended");
  add_sweep_keys(*sweep, options);
  sweep
      ->add_option("--weights", options.weights,
                   "Trained weights, a run's folder or a safetensors file: also say how good each variant is")
      ->type_name("RUN");
  sweep
      ->add_option_function<std::string>(
          "--mode",
          [&options](const std::string& mode) {
            options.converge = mode == "converge";
            if (!options.converge) options.sweep_settings.push_back("sweep.mode=" + mode);
          },
          "inference, training, or converge: how well each of --vary batch.effective=64,256 learns; "
          "default: the recipe's sweep.mode, else inference")
      ->check(CLI::IsMember({"inference", "training", "converge"}));
  sweep->add_option_function<std::string>(
      "--vary",
      [&options](const std::string& vary) {
        options.vary = vary;
        options.sweep_settings.push_back("sweep.vary=" + vary);
      },
      "One further axis, and no more than one: model.width=64,256 or execution.precision=fp32,bf16");
  sweep
      ->add_option("--rules", options.rules,
                   "With --mode converge: values of batch.lr_rule; default: the recipe's and none")
      ->delimiter(',');
  add_comparison_options(*sweep, options);
  sweep->footer(std::string(kSweepExamples) + kExitCodes);
  return sweep;
}

void refuse_of_sweep(const CLI::App& sweep, std::initializer_list<const char*> names, const char* problem,
                     const char* advice) {
  for (const char* const name : names) {
    if (sweep.count(name) > 0) throw Error(ExitCode::kUsage, name, problem, advice);
  }
}

// Options of one mode that another would ignore.
void check_sweep_options(const CLI::App& sweep, bool converge) {
  if (converge) {
    refuse_of_sweep(sweep, {"--batches", "--latency-ms", "--rounds", "--seconds", "--weights"},
                    "means nothing with --mode converge",
                    "leave it out; batches are --vary batch.effective=64,256");
  } else {
    refuse_of_sweep(sweep, {"--seeds", "--target", "--figure", "--training-set", "--rules"},
                    "means something with --mode converge only", "leave it out, or add --mode converge");
  }
}

CLI::App* add_report(CLI::App& app, Options& options) {
  CLI::App* const report = app.add_subcommand("report", "Draw report.html and the CSV files of runs anew");
  report->add_option("FOLDER", options.folders, "Folders of runs, sweeps or comparisons")->required();
  report
      ->add_option("--together", options.together,
                   "One page with the curves of all of them, which are runs, instead")
      ->type_name("OUT.html");
  add_output_options(*report, options);
  report->footer(std::string(kReportExamples) + kExitCodes);
  return report;
}

// What holds for several commands together.
void check(const Options& options, bool output_given) {
  const bool needs_recipe = options.command == Command::kTrain || options.command == Command::kPlan ||
                            options.command == Command::kVerify || options.command == Command::kSweep;
  if (needs_recipe && options.config.empty()) {
    throw Error(ExitCode::kUsage, "command line", "names no recipe",
                "autotrain --config recipes/fashion_mnist_cnn.yaml");
  }
  if (output_given && options.output.empty()) {
    throw Error(ExitCode::kUsage, "--output", "is empty", "name a folder; an unset variable leaves nothing");
  }
  if (options.resume && options.output.empty()) {
    throw Error(ExitCode::kUsage, "--resume", "does not say which run to go on with",
                "add --output with the run's folder");
  }
}

}  // namespace

Options parse_options(int argc, const char* const* argv) {
  Options options;
  CLI::App app("Finds the batch size that fills its memory budget, then trains.\n", "autotrain");
  app.set_version_flag("--version", std::string("autotrain ") + version());
  app.footer(std::string(kExamples) + kExitCodes);
  app.require_subcommand(0, 1);
  add_training(app, options);
  const std::pair<CLI::App*, Command> commands[] = {
      {add_plan(app, options), Command::kPlan},
      {add_verify(app, options), Command::kVerify},
      {add_doctor(app, options), Command::kDoctor},
      {add_compare(app, options), Command::kCompare},
      {add_sweep(app, options), Command::kSweep},
      {add_report(app, options), Command::kReport},
      {app.add_subcommand("config", "Print the reference configuration"), Command::kConfig},
      {app.add_subcommand("schema", "Print the JSON Schema of recipes"), Command::kSchema}};

  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    if (!app.remaining().empty()) {
      throw Error(ExitCode::kUsage, "command line", "knows nothing called " + quote(app.remaining().front()),
                  "autotrain --help shows the commands; training is autotrain --config R.yaml");
    }
    options.command = Command::kHelp;
    options.help = app.help();
    return options;
  } catch (const CLI::CallForVersion& version) {
    options.command = Command::kHelp;
    options.help = std::string(version.what()) + "\n";
    return options;
  } catch (const CLI::ParseError& error) {
    throw Error(ExitCode::kUsage, "command line", error.what(), "autotrain --help shows examples");
  }
  bool output_given = app.count("--output") > 0;
  for (const auto& [app_of_command, command] : commands) {
    if (!app_of_command->parsed()) continue;
    options.command = command;
    if (command == Command::kSweep) check_sweep_options(*app_of_command, options.converge);
    const CLI::Option* const output = app_of_command->get_option_no_throw("--output");
    output_given |= output != nullptr && output->count() > 0;
  }
  check(options, output_given);
  return options;
}

}  // namespace autotrain
