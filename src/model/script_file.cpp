#include "model/script_file.h"

#include <ATen/MemoryOverlap.h>
#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/version.h>

#include <algorithm>
#include <map>
#include <optional>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "base/text.h"
#include "device/failure.h"

namespace autotrain {
namespace fs = std::filesystem;
namespace {

namespace jit = torch::jit;

constexpr const char* kScriptIt =
    "write it with torch.jit.script(module).save(file), in PyTorch " TORCH_VERSION;
constexpr const char* kScriptOrExport =
    "script it: torch.jit.script(module); or export it with python -m autotrain_export";

// ------------------------------------------------------------------ what a file is

// An archive of PyTorch's has the names of its parts; nothing of another file.
std::vector<std::string> parts_of_archive(const fs::path& path) {
  try {
    return caffe2::serialize::PyTorchStreamReader(path.string()).getAllRecords();
  } catch (const std::exception&) {
    return {};
  }
}

// Refuses what other functions of PyTorch have written.
void refuse_other_archives(const fs::path& path) {
  const std::vector<std::string> parts = parts_of_archive(path);
  const auto has = [&](const std::string& end) {
    return std::ranges::any_of(parts, [&](const std::string& part) { return part.ends_with(end); });
  };
  constexpr const char* kIsNone = "is no TorchScript file that this program can read: it was written by ";
  if (has("models/model.json") || has("serialized_exported_program.json"))
    throw Error(ExitCode::kBadData, path.string(), cat(kIsNone, "torch.export"),
                "export the module with python -m autotrain_export, for model.name: exported");
  if (has("data.pkl") && !has("constants.pkl"))
    throw Error(ExitCode::kBadData, path.string(),
                cat(kIsNone, "torch.save, and holds a state_dict or an object of Python"),
                cat("a module is scripted, torch.jit.script(module).save(file), or exported with python -m "
                    "autotrain_export; a state_dict is for model.weights, as a safetensors file"));
}

// The operator that is registered by a library which is not loaded here; "" where it is not that.
std::string missing_operator(const std::string& text) {
  constexpr std::string_view kWords = "Unknown builtin op: ";
  const size_t at = text.find(kWords);
  if (at == std::string::npos) return "";
  const size_t begin = at + kWords.size();
  std::string name = text.substr(begin, text.find_first_of(" \n", begin) - begin);
  if (name.ends_with('.')) name.pop_back();
  return name;
}

std::string first_line_with_words(const std::string& text) {
  for (const std::string& line : split(text, '\n')) {
    if (!trim(line).empty()) return std::string(trim(line));
  }
  return "";
}

// ------------------------------------------------------------------ its buffers

// One number that stands for several cannot be written to. Buffers that were one stay so.
void give_memory_of_their_own(jit::Module& module) {
  std::map<const c10::TensorImpl*, torch::Tensor> whole;
  for (const jit::Module& part : module.modules()) {
    for (const auto& buffer : part.named_buffers(/*recurse=*/false)) {
      if (at::has_internal_overlap(buffer.value) == at::MemOverlap::No) continue;
      torch::Tensor& own = whole[buffer.value.unsafeGetTensorImpl()];
      if (!own.defined()) own = buffer.value.clone(at::MemoryFormat::Contiguous);
      part._ivalue()->setAttr(buffer.name, own);
    }
  }
}

// ------------------------------------------------------------------ what it does in which mode

[[noreturn]] void refuse_traced(const jit::Node& node, const std::string& path) {
  throw Error(ExitCode::kBadRecipe, path,
              cat("is fixed to one mode in ", node.kind().toQualString(),
                  ": it was traced, and train() and eval() change nothing in it"),
              kScriptOrExport);
}

// A module that was traced does in every mode what it did in the one in which it was traced: its operators
// hold the mode as a constant, where scripted ones ask the module.
void check_arguments_of(const jit::Node& node, const std::string& path) {
  const c10::FunctionSchema* const schema = node.maybeSchema();
  if (schema == nullptr) return;
  for (size_t i = 0; i < schema->arguments().size() && i < node.inputs().size(); ++i) {
    const std::string& name = schema->arguments()[i].name();
    const auto constant = jit::toIValue(node.input(i));
    if (!constant) continue;
    if (name == "train" || name == "training") refuse_traced(node, path);
    if (name == "dropout_p" && constant->isDouble() && constant->toDouble() > 0) refuse_traced(node, path);
  }
}

// Those of layers for inference alone. Scripts hold them in a branch, which training does not take.
bool has_no_derivative(const jit::Node& node) {
  const std::string_view name = node.kind().toQualString();
  return name == "aten::_transformer_encoder_layer_fwd" || name == "aten::_native_multi_head_attention";
}

// Attention does so by its dropout alone, which is looked at by itself.
bool draws_numbers(const jit::Node& node) {
  const std::string_view name = node.kind().toQualString();
  return node.isNondeterministic() && name.find("attention") == std::string_view::npos;
}

// What a method does, whatever it branches on.
struct Traits {
  bool asks_its_mode = false;
  std::string draws = {};  // the first operator that draws random numbers
};

void look_at(const jit::Block& block, const std::string& path, bool always_runs, Traits& traits) {
  for (const jit::Node* const node : block.nodes()) {
    if (always_runs && has_no_derivative(*node))
      throw Error(ExitCode::kBadRecipe, path,
                  cat("was traced for inference: ", node->kind().toQualString(), " in it has no derivative"),
                  kScriptOrExport);
    check_arguments_of(*node, path);
    if (node->kind() == c10::prim::GetAttr && node->s(c10::attr::name) == "training")
      traits.asks_its_mode = true;
    if (traits.draws.empty() && draws_numbers(*node)) traits.draws = node->kind().toQualString();
    for (const jit::Block* const inner : node->blocks()) look_at(*inner, path, false, traits);
    if (node->kind() != c10::prim::fork) continue;
    const std::shared_ptr<jit::Graph> forked = node->g(c10::attr::Subgraph)->copy();
    jit::Inline(*forked);
    look_at(*forked->block(), path, always_runs, traits);
  }
}

bool is_quantised(const jit::Module& module) {
  for (const jit::Module& part : module.modules()) {
    const auto& type = part.type()->name();
    if (type && type->qualifiedName().find("quantized") != std::string::npos) return true;
  }
  return false;
}

}  // namespace

jit::Module load_script(const fs::path& path) {
  if (!fs::exists(path)) {
    throw Error(
        ExitCode::kMissingFile, path.string(), "there is no such file",
        cat("model.file names a TorchScript file, from the folder ", fs::current_path().string(), " on"));
  }
  try {
    jit::Module module = jit::load(path.string(), torch::kCPU);
    give_memory_of_their_own(module);
    return module;
  } catch (const std::exception& error) {
    if (classify_failure(error) != Failure::kOther) throw;
    refuse_other_archives(path);
    const std::string missing = missing_operator(error.what());
    if (!missing.empty())
      throw Error(ExitCode::kBadData, path.string(), cat("calls ", missing, ", which this program has not"),
                  "write that part of the module with PyTorch's own operators, and script it again");
    throw Error(
        ExitCode::kBadData, path.string(),
        cat("is no TorchScript file that this program can read: ", first_line_with_words(error.what())),
        kScriptIt);
  }
}

void check_script_trains(const jit::Module& module, const std::string& path) {
  const auto forward = module.find_method("forward");
  if (!forward) throw Error(ExitCode::kBadData, path, "has no method forward", kScriptIt);
  const std::shared_ptr<jit::Graph> graph = forward->graph()->copy();
  jit::Inline(*graph);
  Traits traits;
  look_at(*graph->block(), path, /*always_runs=*/true, traits);
  if (!traits.draws.empty() && !traits.asks_its_mode)
    log::warn("model", cat(path, " draws random numbers (", traits.draws,
                           ") and never asks whether it trains: evaluations and predictions draw them, too"));
  if (module.parameters().size() > 0) return;
  throw Error(ExitCode::kBadData, path,
              is_quantised(module) ? "has no parameters: it was quantised for inference"
                                   : "has no parameters: it was frozen for inference",
              kScriptIt);
}

}  // namespace autotrain
