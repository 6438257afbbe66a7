#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "autotrain/batch.h"
#include "autotrain/named_tensor.h"
#include "model/graph_nodes.h"
#include "model/models.h"

namespace autotrain {

/// A module of PyTorch as scripts/python/autotrain_export wrote it: its tensors, and its graphs. A
/// safetensors file whose metadata hold the rest, see docs/exported_models.md. Reading it runs nothing.
struct ExportedFile {
  struct Parameter {
    NamedTensor tensor;
    bool learns = true;  ///< false: it is frozen
  };
  struct Graphs {
    std::shared_ptr<const graph::Graph> training;
    std::shared_ptr<const graph::Graph> evaluation;
  };

  std::vector<Parameter> parameters = {};
  std::vector<NamedTensor> buffers = {};
  std::vector<torch::Tensor> constants = {};
  std::map<std::string, std::string> other_names = {};   ///< of tied weights: name → name of its tensor
  std::map<std::string, std::string> module_types = {};  ///< of parts with parameters: path → "LayerNorm"
  std::vector<InputInfo> inputs = {};                    ///< in the order in which the module takes them
  std::optional<LossReduction> loss = {};                ///< of a module that computes its loss itself
  std::optional<InputInfo> targets = {};                 ///< that it computes its loss from
  std::vector<int64_t> unusable_targets = {};            ///< values with which it is no sum over samples
  std::string device = {};  ///< the kind of device that the operators are of: "cpu" or "cuda"
  std::map<std::string, Graphs> graphs = {};  ///< by precision: "fp32", "bf16" or "fp16"
  int64_t classes = 0;                        ///< the last size of a prediction; 0: not said
  int64_t smallest_batch = 1;                 ///< that the module can be trained on
  std::string digest = {};                    ///< of all that the file holds
};

/// @throws Error(kMissingFile, kBadData) naming what is wrong with the file.
ExportedFile read_exported_file(const std::filesystem::path& path);

}  // namespace autotrain
