#include "model/exported_file.h"

#include <torch/version.h>
#include <zlib.h>

#include <utility>

#include "autotrain/error.h"
#include "base/json.h"
#include "base/text.h"
#include "checkpoint/safetensors.h"
#include "model/graph_reader.h"

namespace autotrain {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kFormat = 2;
constexpr const char *kDocument = "autotrain_model", *kDocumentSum = "autotrain_model_crc32";
constexpr const char* kExportAgain = "export it again: python -m autotrain_export --help";

struct Fault {
  std::string what;
  std::string hint = kExportAgain;
};

uint32_t crc32_of(const void* bytes, size_t count) {
  return static_cast<uint32_t>(::crc32_z(0, static_cast<const Bytef*>(bytes), count));
}

// The document, as the exporter wrote it.
std::string read_document(const fs::path& path) {
  const std::map<std::string, std::string> metadata = read_safetensors_metadata(path);
  const auto document = metadata.find(kDocument), sum = metadata.find(kDocumentSum);
  if (document == metadata.end() || sum == metadata.end())
    throw Fault{"holds tensors but no model",
                "write it with python -m autotrain_export; a file of weights "
                "alone does not say what to compute"};
  if (sum->second != std::to_string(crc32_of(document->second.data(), document->second.size())))
    throw Fault{"is damaged: its description has another checksum"};
  return document->second;
}

// Graphs hold operators of one version of LibTorch.
void check_version(const Json& document) {
  const auto format = whole_number<int64_t>(document.at("format"));
  if (format != kFormat) throw Fault{cat("is of format ", format, "; this program reads format ", kFormat)};
  const std::string torch = document.at("torch");
  const std::string number = torch.substr(0, torch.find('+'));
  if (number != TORCH_VERSION)
    throw Fault{cat("was exported by PyTorch ", number, "; this program has LibTorch ", TORCH_VERSION)};
}

// The tensors of the file by name, each taken once.
class Tensors {
 public:
  Tensors(const fs::path& path, const Json& sums) {
    for (NamedTensor& item : read_safetensors(path)) {
      const uint32_t sum = crc32_of(item.tensor.const_data_ptr(), item.tensor.nbytes());
      if (!sums.contains(item.name) || whole_number<uint32_t>(sums.at(item.name)) != sum)
        throw Fault{cat("is damaged: tensor ", quote(item.name), " has another checksum")};
      tensors_[item.name] = std::move(item.tensor);
    }
  }

  NamedTensor take(const std::string& name) {
    auto item = tensors_.extract(name);
    if (item.empty()) throw Fault{cat("lacks the tensor ", quote(name))};
    return {name, std::move(item.mapped())};
  }

  void check_empty() const {
    if (!tensors_.empty())
      throw Fault{cat("holds the tensor ", quote(tensors_.begin()->first), ", which no graph is given")};
  }

 private:
  std::map<std::string, torch::Tensor> tensors_;
};

// A name is that of parts of the module, with dots between them.
const std::string& checked(const std::string& name) {
  for (const std::string& part : split(name, '.')) {
    if (part.empty()) throw Fault{cat("has a tensor with the name ", quote(name))};
  }
  return name;
}

void read_tensors(const Json& document, Tensors& tensors, ExportedFile& file) {
  for (const Json& item : document.at("parameters")) {
    file.parameters.push_back(
        {tensors.take(checked(item.at("name").get<std::string>())), item.at("learns").get<bool>()});
    const ExportedFile::Parameter& parameter = file.parameters.back();
    if (parameter.learns && parameter.tensor.tensor.scalar_type() != torch::kFloat32)
      throw Fault{cat("has parameter ", quote(parameter.tensor.name), ", which learns and is not float32")};
  }
  for (const Json& name : document.at("buffers"))
    file.buffers.push_back(tensors.take(checked(name.get<std::string>())));
  const auto constants = whole_number<int64_t>(document.at("constants"));
  for (int64_t i = 0; i < constants; ++i) file.constants.push_back(tensors.take(cat("constant ", i)).tensor);
  tensors.check_empty();
  document.at("other_names").get_to(file.other_names);
  for (const auto& [name, first_name] : file.other_names) checked(name);
  if (document.contains("module_types")) document.at("module_types").get_to(file.module_types);
  for (const auto& [name, type] : file.module_types) checked(name);
}

void read_graphs(const Json& document, ExportedFile& file) {
  size_t learning = 0;
  for (const ExportedFile::Parameter& parameter : file.parameters) learning += parameter.learns ? 1 : 0;
  graph::Given given{.parameters = file.parameters.size(),
                     .buffers = file.buffers.size(),
                     .constants = file.constants.size(),
                     .inputs = file.inputs.size() + (file.targets ? 1 : 0),
                     .loss = file.loss.has_value()};
  for (const auto& [precision, modes] : document.at("graphs").items()) {
    const auto read = [&, &name = precision, &graphs = modes](const char* mode, bool training) {
      given.training = training;
      try {
        return std::make_shared<const graph::Graph>(
            graph::read_graph(graphs.at(mode), given, training ? learning : 0));
      } catch (const graph::Malformed& error) {
        throw Fault{cat("has a graph for ", mode, " in ", name, " that cannot be run: ", error.what())};
      }
    };
    file.graphs[precision] = {.training = read("training", true), .evaluation = read("evaluation", false)};
  }
  if (file.graphs.empty()) throw Fault{"has no graphs"};
}

InputInfo read_tensor(const Json& json, const std::string& name) {
  InputInfo info{.name = name, .type = graph::dtype_named(json.at("dtype"))};
  if (c10::isComplexType(info.type))  // no data set has such samples
    throw Fault{cat(name, " is the type ", c10::toString(info.type), ", which no data set has")};
  read_exactly(json.at("shape"), info.shape);
  return info;
}

LossReduction reduction_named(const std::string& name) {
  if (name == "mean") return LossReduction::kMean;
  if (name == "sum") return LossReduction::kSum;
  throw Fault{cat("has a loss of the reduction ", quote(name), ", which is not known here")};
}

void read_samples(const Json& document, ExportedFile& file) {
  for (const Json& input : document.at("inputs"))
    file.inputs.push_back(read_tensor(input, input.at("name").get<std::string>()));
  if (file.inputs.empty()) throw Fault{"has no inputs"};
  if (document.contains("loss")) file.loss = reduction_named(document.at("loss"));
  if (file.loss && document.contains("targets")) {
    const Json& targets = document.at("targets");
    file.targets = read_tensor(targets, "targets");
    if (targets.contains("unusable")) read_exactly(targets.at("unusable"), file.unusable_targets);
  }
  file.device = document.at("device");
  if (document.contains("classes")) file.classes = whole_number<int64_t>(document.at("classes"));
  file.smallest_batch = whole_number<int64_t>(document.at("smallest_batch"));
}

ExportedFile read(const fs::path& path) {
  const std::string text = read_document(path);
  const Json document = Json::parse(text);
  check_version(document);
  ExportedFile file{.digest = cat(text.size(), " ", crc32_of(text.data(), text.size()))};
  Tensors tensors(path, document.at("crc32"));
  read_tensors(document, tensors, file);
  read_samples(document, file);
  read_graphs(document, file);
  return file;
}

}  // namespace

ExportedFile read_exported_file(const fs::path& path) {
  if (!fs::exists(path)) {
    throw Error(ExitCode::kMissingFile, path.string(), "there is no such file",
                cat("model.file names the file that python -m autotrain_export wrote, from the folder ",
                    fs::current_path().string(), " on"));
  }
  try {
    return read(path);
  } catch (const Fault& fault) {
    throw Error(ExitCode::kBadData, path.string(), fault.what, fault.hint);
  } catch (const graph::Malformed& error) {
    throw Error(ExitCode::kBadData, path.string(), cat("cannot be read: ", error.what()), kExportAgain);
  } catch (const nlohmann::json::exception& error) {
    throw Error(ExitCode::kBadData, path.string(),
                cat("has a description that cannot be read: ", error.what()), kExportAgain);
  }
}

}  // namespace autotrain
