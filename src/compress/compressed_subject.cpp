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

// Parts of the model that own a weight of a linear layer or a convolution.
std::set<std::string> multiplying_parts(const ForwardCount& counts, OperatorKind kind) {
  std::set<std::string> parts;
  for (const OperatorCount& each : counts.operators) {
    if (each.kind == kind && each.weight_bytes > 0) parts.insert(each.module);
  }
  return parts;
}

// The layers of experts of the program's own by their names, and the share of their weights that the counted
// pass read.
std::map<std::string, double> experts_read(const torch::nn::Module& module, const ForwardCount& counts) {
  std::map<std::string, double> shares;
  for (const auto& part : module.named_modules()) {
    if (part.value()->as<ExpertsImpl>() == nullptr) continue;
    double read = 0, all = 0;
    for (const OperatorCount& each : counts.operators)
      if (each.module == part.key()) read += static_cast<double>(each.weight_bytes);
    for (const torch::Tensor& own : part.value()->parameters(/*recurse=*/false))
      all += static_cast<double>(own.nbytes());
    shares[part.key()] = std::min(1.0, read / all);
  }
  return shares;
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

CompressionSource source_of(const TrainedRun& run, const torch::nn::Module& module,
                            const ForwardCount& counts) {
  CompressionSource source{.model = run.recipe.model};
  const std::set<std::string> linear = multiplying_parts(counts, OperatorKind::kLinear),
                              convolutions = multiplying_parts(counts, OperatorKind::kConvolution);
  const std::map<std::string, double> experts = experts_read(module, counts);
  std::set<std::string> names;  // the first one of each tensor
  std::set<const void*> seen;
  for (const auto& item : module.named_parameters()) {
    if (!seen.insert(item.value().unsafeGetTensorImpl()).second) continue;
    names.insert(item.key());
    if (item.key().ends_with("bias")) continue;  // of several experts it is a matrix, too
    const torch::Tensor& tensor = item.value();
    const std::string part = part_of(item.key());
    if (!tensor.is_floating_point()) continue;
    const auto of_experts = experts.find(part);
    const bool multiplied =
        (tensor.dim() == 2 && linear.contains(part)) || (tensor.dim() > 2 && convolutions.contains(part));
    if (tensor.dim() == 3 && of_experts != experts.end()) {
      source.products.insert(item.key());
      source.experts.emplace(item.key(), of_experts->second);
    } else if (multiplied) {
      source.products.insert(item.key());
    } else if (tensor.dim() > 2 && linear.contains(part)) {
      source.unknown_stacks.push_back(item.key());
    }
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
