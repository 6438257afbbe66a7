#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "base/enum_names.h"
#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/common_options.h"
#include "cli/run_options.h"
#include "recipe/recipe_enums.h"
#include "step/precision.h"
#include "study/needed_files.h"
#include "study/weights_file.h"

namespace autotrain {
namespace fs = std::filesystem;
namespace {

struct ExportOptions : RunChoiceOptions, OutputOption, PrintOptions {
  std::string dtype;  ///< "": as they are
  bool adapters = false, overwrite = false;
};

const std::vector<std::string> kTypes = {"fp32", "fp16", "bf16"};

std::optional<torch::ScalarType> type_asked(const ExportOptions& options) {
  if (options.dtype.empty()) return std::nullopt;
  return product_type(*parse_enum<Precision>(options.dtype));
}

// A run's own files and weights of other exports are easily named by mistake.
void check_output(const ExportOptions& options) {
  const fs::path& output = options.output;
  if (!options.adapters && fs::is_directory(output))
    throw Error(ExitCode::kUsage, output.string(), "is a folder", "give --output the name of a file");
  if (options.adapters && fs::exists(output) && !fs::is_directory(output))
    throw Error(ExitCode::kUsage, output.string(), "is a file", "give --output the name of a folder");
  if (!options.adapters) check_ending(output);
  if (options.overwrite || !fs::exists(output) || (options.adapters && fs::is_empty(output))) return;
  throw Error(ExitCode::kUsage, output.string(), "is there already",
              "--overwrite replaces it; or give another --output");
}

// A reader sees the old file or the new one, never a part.
void write_whole(const TrainedRun& run, const std::vector<NamedTensor>& weights, const fs::path& output) {
  if (output.has_parent_path()) make_folders(output.parent_path());
  fs::path partial = output;
  partial.replace_filename(output.stem().string() + ".partial" + output.extension().string());
  write_model(run.recipe, weights, partial);
  rename_into_place(partial, output);
}

void tell(const ExportOptions& options, const TrainedRun& run) {
  if (options.json) {
    const nlohmann::ordered_json json = {
        {"run", run.folder.string()}, {"update", run.update}, {"output", options.output.string()}};
    std::fputs(text_of_json(json).c_str(), stdout);
  } else {
    std::printf("wrote %s: the %s after update %lld%s\n", options.output.c_str(),
                options.adapters ? "adapters" : "weights", static_cast<long long>(run.update),
                options.dtype.empty() ? "" : cat(", in ", options.dtype).c_str());
  }
}

ExitCode export_run(const ExportOptions& options) {
  log::set_sink(log::terminal_sink(), options.log_level());
  refuse_several_ranks();
  check_output(options);
  const TrainedRun run = open_trained_run(options.run, {});
  check_not_needed(run, options.adapters ? options.output / "adapter_model.safetensors" : options.output);
  const std::optional<torch::ScalarType> type = type_asked(options);
  if (options.adapters) {
    write_adapters(run.checkpoint, run.recipe, type, options.output);
  } else {
    const std::vector<NamedTensor> weights = trained_weights(run.checkpoint, run.recipe);
    write_whole(run, type ? in_type(weights, *type) : weights, options.output);
  }
  tell(options, run);
  return ExitCode::kDone;
}

std::function<ExitCode()> declare_export(CLI::App& app) {
  const auto options = std::make_shared<ExportOptions>();
  options->RunChoiceOptions::declare(app);
  app.add_option("--output", options->output, "The safetensors file, or the folder of --adapters, to write")
      ->required()
      ->type_name("PATH");
  app.add_option("--dtype", options->dtype,
                 "Round floating-point numbers to this type; else they stay as trained")
      ->check(CLI::IsMember(kTypes))
      ->type_name("TYPE");
  app.add_flag("--adapters", options->adapters,
               "Write a LoRA run's adapters alone, as peft reads them, into a folder");
  app.add_flag("--overwrite", options->overwrite, "Replace what is there under that name");
  options->PrintOptions::declare(app);
  return [options] { return export_run(*options); };
}

constexpr const char* kExportExamples = R"(
The file names tensors as the model does. In Python it is read by
net.load_state_dict(safetensors.torch.load_file(FILE)), in a recipe by
model.weights: FILE. Averaged weights are written where the run has some, as
evaluations use them. What adapters of model.lora change is added to the
weights. Of a run of model: torchscript, a FILE that ends in .pt is the module
itself with these weights, for torch.jit.load.

Examples:
  autotrain export --run runs/a --checkpoint best --output best.safetensors
      the weights of the best evaluation
  autotrain export --run runs/a --output half.safetensors --dtype bf16
      the newest ones at half the size; a number beyond the type's range is
      refused by name
  autotrain export --run runs/a --output adapter --adapters
      adapter/adapter_model.safetensors and adapter/adapter_config.json, for
      peft.PeftModel.from_pretrained
)";

}  // namespace

extern const Command kExport;
const Command kExport = {"export", "Write a run's weights to a file that Python and recipes read",
                         kExportExamples, declare_export};

}  // namespace autotrain
