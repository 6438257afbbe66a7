#pragma once

#include <memory>

#include "compress/method.h"
#include "compress/smaller_file.h"
#include "measure/subject.h"
#include "measure/weight_uses.h"
#include "study/evaluated_checkpoint.h"
#include "study/trained_run.h"

namespace autotrain {

/// A run's model with its own weights, ready for forward passes in the precision that it was planned in.
std::unique_ptr<InferenceSubject> open_uncompressed(const TrainedRun& run);

/// The same with those of a file of smaller ones. @throws Error(kBadRecipe) where the model cannot compute
/// so.
std::unique_ptr<InferenceSubject> open_compressed(const TrainedRun& run, const std::filesystem::path& file,
                                                  const CompressionMethod& method);

/// Evaluates the run with the weights of such a file as `autotrain evaluate --weights` does, of kInt8 with
/// linear layers that round their inputs too. @throws as evaluate_checkpoint.
Evaluation evaluate_compressed(const TrainedRun& run, const std::filesystem::path& file,
                               const CompressionMethod& method,
                               const std::function<void(int64_t samples)>& proceed, EvaluationChange change);

/// The run's weights, each once, adapters merged; `products` are those that the counted pass multiplied by.
CompressionSource source_of(const TrainedRun& run, const torch::nn::Module& module,
                            const std::vector<WeightUse>& uses);

/// What the pass did with each of a model's weights, under the first of its names: all that `source` says of
/// names.
void sort_weights(const torch::nn::Module& module, const std::vector<WeightUse>& uses,
                  CompressionSource& source);

/// Has linear layers of the program's own compute with weights as the method keeps them, where there is a
/// kernel.
/// @return how many do.
int64_t pack_linear_layers(torch::nn::Module& module, const CompressionMethod& method);

}  // namespace autotrain
