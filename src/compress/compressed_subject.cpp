#include "compress/compressed_subject.h"

#include <algorithm>
#include <set>

#include "model/experts.h"
#include "model/linear.h"
#include "model/name_patterns.h"
#include "model/pruned.h"
#include "study/weights_file.h"

namespace autotrain {
namespace {

// What a pass did with one weight.
struct Uses {
  bool linear = false, convolution = false;
  bool inputs_first = false;
  bool read = false;  // else nothing was, or rows were looked up
};

std::map<std::string, Uses> by_weight(const std::vector<WeightUse>& uses) {
  std::map<std::string, Uses> all;
  for (const WeightUse& use : uses) {
    Uses& of_weight = all[use.name];
    of_weight.linear |= use.kind == OperatorKind::kLinear;
    of_weight.convolution |= use.kind == OperatorKind::kConvolution;
    of_weight.inputs_first |= use.inputs_first;
    of_weight.read |= use.bytes > 0;
  }
  return all;
}

// The names of stacks of weights that experts of the program's own hold.
std::set<std::string> stacks_of_experts(const torch::nn::Module& module) {
  std::set<std::string> names;
  for (const auto& part : module.named_modules()) {
    if (part.value()->as<ExpertsImpl>() == nullptr) continue;
    for (const auto& own : part.value()->named_parameters(/*recurse=*/false))
      if (own.value().dim() == 3) names.insert(part.key() + "." + own.key());
  }
  return names;
}

int64_t linear_layers(const torch::nn::Module& module) {
  int64_t layers = 0;
  for (const auto& part : module.modules()) {
    if (const auto* const experts = part->as<ExpertsImpl>()) layers += experts->layers();
    if (part->as<LinearImpl>() != nullptr) ++layers;
  }
  return layers;
}

// What a run that began with pruned weights says of their shapes and zeros goes on into files of its own
// weights.
void add_pruned(const TrainedRun& run, CompressionSource& source) {
  const auto pruned = pruned_by_file(run.recipe.weights);
  if (!pruned) return;
  check_still_pruned(*pruned, source.tensors, run.recipe.weights);
  source.pruned = pruned->is_pruned();
  source.stays = pruned->stays;
  for (const auto& [part, kept] : pruned->kept) source.tensors.push_back({name_of_kept(part), kept});
}

}  // namespace

std::unique_ptr<InferenceSubject> open_uncompressed(const TrainedRun& run) {
  return make_inference_subject(run.as_planned(),
                                [&](torch::nn::Module& module) { load_evaluated_weights(run, module); });
}

std::unique_ptr<InferenceSubject> open_compressed(const TrainedRun& run, const std::filesystem::path& file,
                                                  const CompressionMethod& method) {
  Recipe recipe = run.as_planned();
  recipe.weights = {.file = file.string()};
  recipe.lora = {};  // merged
  if (method.kind == Compression::kInt8) recipe.execution.precision = Precision::kInt8;
  return make_inference_subject(recipe);
}

Evaluation evaluate_compressed(const TrainedRun& run, const std::filesystem::path& file,
                               const CompressionMethod& method,
                               const std::function<void(int64_t samples)>& proceed, EvaluationChange change) {
  TrainedRun smaller = run;
  smaller.weights = file;
  smaller.recipe.weights = {.file = file.string()};
  smaller.recipe.lora = {};  // merged
  if (method.kind == Compression::kInt8) {
    smaller.plan.precision = Precision::kFp32;  // that of everything beside linear layers
    change.prepare = [](torch::nn::Module& module) { quantize_linear_layers(module); };
  }
  return evaluate_checkpoint(smaller, proceed, change);
}

void sort_weights(const torch::nn::Module& module, const std::vector<WeightUse>& uses,
                  CompressionSource& source) {
  constexpr double kLarge = 0.01;  // of all bytes, from which on it matters that a weight stays as it is
  const std::map<std::string, Uses> used = by_weight(uses);
  const std::set<std::string> stacks = stacks_of_experts(module);
  double all = 0;
  for (const torch::Tensor& each : module.parameters()) all += static_cast<double>(each.nbytes());
  std::set<const void*> seen;
  for (const auto& item : module.named_parameters()) {
    const std::string& name = item.key();
    const torch::Tensor& tensor = item.value();
    if (!seen.insert(tensor.unsafeGetTensorImpl()).second || !tensor.is_floating_point()) continue;
    const auto found = used.find(name);
    const Uses of_weight = found == used.end() ? Uses() : found->second;
    if (stacks.contains(name)) source.experts.insert(name);
    if (stacks.contains(name) || (of_weight.linear && tensor.dim() == 2) ||
        (of_weight.convolution && tensor.dim() >= 2)) {
      source.products.insert(name);
      if (of_weight.inputs_first) source.inputs_first.insert(name);
    } else if (tensor.dim() >= 2 && !name.ends_with("bias") && of_weight.read &&
               (of_weight.linear || static_cast<double>(tensor.nbytes()) > kLarge * all)) {
      source.others.push_back(name);
    }
  }
}

CompressionSource source_of(const TrainedRun& run, const torch::nn::Module& module,
                            const std::vector<WeightUse>& uses) {
  CompressionSource source{.model = run.recipe.model};
  sort_weights(module, uses, source);
  std::set<std::string> names;  // the first one of each tensor
  std::set<const void*> seen;
  for (const auto& item : module.named_parameters()) {
    if (seen.insert(item.value().unsafeGetTensorImpl()).second) names.insert(item.key());
  }
  for (const auto& item : module.named_buffers()) names.insert(item.key());
  for (const NamedTensor& item : trained_weights(run.checkpoint, run.recipe)) {
    if (names.contains(item.name)) source.tensors.push_back(item);
  }
  add_pruned(run, source);
  return source;
}

int64_t pack_linear_layers(torch::nn::Module& module, const CompressionMethod& method) {
  if (method.kind == Compression::kInt8) return linear_layers(module);  // since the model was opened
  const bool few_bits = method.kind == Compression::kInt8Weights || method.kind == Compression::kInt4Weights;
  const auto on_cpu = [](const torch::Tensor& tensor) { return tensor.is_cpu(); };
  if (!few_bits || !std::ranges::all_of(module.parameters(), on_cpu)) return 0;  // there are kernels for CPUs
  int64_t layers = 0;
  for (const auto& part : module.modules()) {
    const bool eight = method.kind == Compression::kInt8Weights;
    if (auto* const experts = part->as<ExpertsImpl>())
      layers += eight ? experts->keep_int8() : experts->keep_int4(method.group);
    auto* const layer = part->as<LinearImpl>();
    if (layer == nullptr) continue;
    if (eight) layer->keep_int8();
    if (eight || layer->keep_int4(method.group)) ++layers;
  }
  return layers;
}

}  // namespace autotrain
