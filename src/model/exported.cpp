#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <algorithm>
#include <ostream>
#include <utility>

#include "autotrain/error.h"
#include "base/text.h"
#include "model/exported_file.h"
#include "model/graph_pass.h"
#include "model/graph_uses.h"
#include "model/models.h"
#include "model/name_patterns.h"
#include "model/parts.h"

namespace autotrain {
namespace {

// Runs the backward half of a pass when autograd comes to the prediction.
struct PassBackward final : torch::autograd::Node {
  PassBackward(std::unique_ptr<graph::Pass> pass, torch::autograd::edge_list edges)
      : Node(std::move(edges)), pass_(std::move(pass)) {}

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    TORCH_CHECK(pass_ != nullptr, "a prediction of an exported model is differentiated once");
    const std::unique_ptr<graph::Pass> pass = std::move(pass_);
    torch::Tensor cotangent = std::move(gradients.at(0));
    if (!cotangent.defined()) return torch::autograd::variable_list(num_outputs());
    cotangent = cotangent.contiguous();
    return pass->backward(std::move(cotangent));
  }

  void release_variables() override { pass_.reset(); }

 private:
  std::unique_ptr<graph::Pass> pass_;
};

std::string name_of_graphs(Precision precision) {
  if (precision == Precision::kBf16) return "bf16";
  return precision == Precision::kFp16 ? "fp16" : "fp32";
}

std::string precision_in_force(torch::DeviceType device) {
  if (!at::autocast::is_autocast_enabled(device)) return name_of_graphs(Precision::kFp32);
  const bool bf16 = at::autocast::get_autocast_dtype(device) == torch::kBFloat16;
  return name_of_graphs(bf16 ? Precision::kBf16 : Precision::kFp16);
}

std::string described(torch::ScalarType type, c10::IntArrayRef shape) {
  return cat(c10::toString(type), " of the shape ", shape);
}

class Exported final : public Network {
 public:
  Exported(std::string path, ExportedFile file) : path_(std::move(path)), file_(std::move(file)) {
    for (const ExportedFile::Parameter& parameter : file_.parameters)
      hold(parameter.tensor.name, parameter.tensor.tensor, parameter.learns);
    for (const NamedTensor& buffer : file_.buffers) {
      part_with(*this, buffer.name).register_buffer(last_part(buffer.name), buffer.tensor);
      tensors_.push_back(buffer.tensor);
    }
    for (const auto& [name, first_name] : file_.other_names) tie(name, first_name);
  }

  torch::Tensor forward(torch::Tensor inputs) override {
    check_inputs(inputs);
    const ExportedFile::Graphs& graphs = graphs_for(inputs.device().type());
    const std::vector<torch::Tensor> weights = weights_in_use();
    auto pass = std::make_unique<graph::Pass>(is_training() ? graphs.training : graphs.evaluation,
                                              with_constants_and(inputs, weights));
    torch::Tensor prediction = pass->forward();
    if (is_training() && torch::GradMode::is_enabled()) differentiate(prediction, std::move(pass), weights);
    return prediction;
  }

  bool computes_in(Precision precision) const override {
    return file_.graphs.contains(name_of_graphs(precision));
  }
  bool casts_itself() const override { return true; }
  int64_t smallest_batch() const override { return file_.smallest_batch; }
  std::string fingerprint() const override { return file_.digest; }

  // Keys of kept plans are made of what modules print.
  void pretty_print(std::ostream& stream) const override { stream << "exported " << file_.digest; }

 protected:
  void on_frozen(const char* key) override {
    check_statistics(key);
    std::vector<bool> learns;
    for (const size_t place : learning_)
      learns.push_back(tensors_[place].requires_grad() || adapter_of_.contains(place));
    for (auto& [precision, graphs] : file_.graphs) {
      graphs.training =
          std::make_shared<const graph::Graph>(graph::without_gradients(*graphs.training, learns));
    }
  }

  std::string cannot_adapt(const torch::Tensor& weight) const override {
    const size_t place = place_of(weight);
    if (!file_.parameters[place].learns) return "is frozen in the file";
    const graph::Graph& graph = *file_.graphs.begin()->second.evaluation;
    const bool looked_up = std::ranges::any_of(graph.nodes, [&](const graph::Node& node) {
      return node.name.starts_with("aten::embedding") && takes_value(node, place);
    });
    return looked_up ? "is an embedding" : "";
  }

  void use(const torch::Tensor& weight, std::shared_ptr<const Adapter> adapter) override {
    adapter_of_[place_of(weight)] = std::move(adapter);
  }

 private:
  // Its graphs are those of training, which update the statistics.
  void check_statistics(const char* key) const {
    for (const NamedTensor& buffer : file_.buffers) {
      const std::string part = buffer.name.substr(0, buffer.name.rfind('.') + 1);
      const bool frozen =
          std::ranges::any_of(file_.parameters, [&](const ExportedFile::Parameter& parameter) {
            return parameter.tensor.name.starts_with(part) && parameter.learns &&
                   !parameter.tensor.tensor.requires_grad();
          });
      if (!buffer.name.ends_with("running_mean") || !frozen) continue;
      throw Error(
          ExitCode::kBadRecipe, key,
          cat("freezes ", quote(part + "*"), ", whose statistics an exported model goes on to update"),
          "freeze it in Python, with requires_grad_(False) and eval(), and export it again; beside "
          "model.lora it may learn: model.lora.train");
    }
  }

  static bool takes_value(const graph::Node& node, size_t value) {
    bool takes = false;
    for (const graph::Argument& argument : node.arguments)
      argument.for_each_value([&](size_t each) { takes |= each == value; });
    return takes;
  }

  // The number of the parameter that this tensor is.
  size_t place_of(const torch::Tensor& weight) const {
    size_t place = 0;
    while (place < file_.parameters.size() && !file_.parameters[place].tensor.tensor.is_same(weight)) ++place;
    check_invariant(place < file_.parameters.size(), "the tensor is a parameter of the file");
    return place;
  }

  void hold(const std::string& name, const torch::Tensor& tensor, bool learns) {
    part_with(*this, name).register_parameter(last_part(name), tensor, learns);
    if (learns) learning_.push_back(tensors_.size());
    tensors_.push_back(tensor);
  }

  // Registers a tensor under a second name, as Python's module has it.
  void tie(const std::string& name, const std::string& first_name) {
    Module& part = part_with(*this, name);
    for (const ExportedFile::Parameter& parameter : file_.parameters) {
      if (parameter.tensor.name == first_name)
        return void(part.register_parameter(last_part(name), parameter.tensor.tensor, parameter.learns));
    }
    for (const NamedTensor& buffer : file_.buffers) {
      if (buffer.name == first_name) return void(part.register_buffer(last_part(name), buffer.tensor));
    }
    throw Error(ExitCode::kBadData, path_,
                cat("gives the name ", quote(name), " to ", quote(first_name), ", which it lacks"));
  }

  const ExportedFile::Graphs& graphs_for(torch::DeviceType device) const {
    if (c10::DeviceTypeName(device, /*lower_case=*/true) != file_.device) {
      throw Error(ExitCode::kBadRecipe, path_,
                  cat("was exported for ", file_.device, ", and this run computes on ",
                      c10::DeviceTypeName(device, true)),
                  cat("set execution.device: ", file_.device));
    }
    const std::string precision = precision_in_force(device);
    const auto found = file_.graphs.find(precision);
    if (found != file_.graphs.end()) return found->second;
    throw Error(ExitCode::kBadRecipe, path_, cat("has no graphs for ", precision),
                cat("set execution.precision: ", file_.graphs.begin()->first,
                    ", or export it again with --precision ", precision));
  }

  void check_inputs(const torch::Tensor& inputs) const {
    const bool batched = inputs.dim() > 0;
    if (batched && inputs.sizes().slice(1) == c10::IntArrayRef(file_.input_shape) &&
        inputs.scalar_type() == file_.input_type)
      return;
    throw Error(ExitCode::kBadRecipe, path_,
                cat("takes samples of ", described(file_.input_type, file_.input_shape), "; these are ",
                    described(inputs.scalar_type(), batched ? inputs.sizes().slice(1) : c10::IntArrayRef())),
                "export it with an --example of such samples, or change data.train");
  }

  // Parameters and buffers, with what adapters make of a weight in its place.
  std::vector<torch::Tensor> weights_in_use() const {
    std::vector<torch::Tensor> weights = tensors_;
    for (const auto& [place, adapter] : adapter_of_) {
      if (adapter) weights[place] = adapter->effective();
    }
    return weights;
  }

  std::vector<torch::Tensor> with_constants_and(const torch::Tensor& inputs,
                                                std::vector<torch::Tensor> tensors) {
    for (torch::Tensor& constant : file_.constants) {
      if (constant.device() != inputs.device()) constant = constant.to(inputs.device());
      tensors.push_back(constant);
    }
    tensors.push_back(inputs);
    return tensors;
  }

  void differentiate(torch::Tensor& prediction, std::unique_ptr<graph::Pass> pass,
                     const std::vector<torch::Tensor>& weights) const {
    torch::autograd::variable_list learning;
    for (const size_t place : learning_) learning.push_back(weights[place]);
    const std::shared_ptr<PassBackward> node(
        new PassBackward(std::move(pass), torch::autograd::collect_next_edges(learning)),
        torch::autograd::deleteNode);
    torch::autograd::set_history(prediction, node);
  }

  std::string path_;
  ExportedFile file_;
  std::vector<torch::Tensor> tensors_;  // parameters and buffers, in the order in which graphs take them
  std::vector<size_t> learning_;        // the numbers of those that have gradients
  std::map<size_t, std::shared_ptr<const Adapter>> adapter_of_;  // by the number of a parameter
};

void check_samples(const std::string& path, const ExportedFile& file, const SampleShape& shape) {
  if (file.classes > 0 && file.classes < shape.classes) {
    throw Error(ExitCode::kBadRecipe, "model.file",
                cat(path, " predicts ", file.classes, " classes; data.train has ", shape.classes),
                "export a module that predicts them all, with the classes last");
  }
  const auto type = shape.vocabulary > 0 ? torch::kInt64 : torch::kFloat32;
  if (file.input_type == type && file.input_shape == shape.input) return;
  throw Error(ExitCode::kBadRecipe, "model.file",
              cat(path, " takes samples of ", described(file.input_type, file.input_shape),
                  "; those of data.train are ", described(type, shape.input)),
              "export it with an --example of such samples, or change data.train");
}

std::shared_ptr<Network> make_exported(const Parameters& p, const SampleShape& shape) {
  const std::string path = p.text("file");
  if (path.empty()) {
    throw Error(ExitCode::kBadRecipe, "model.file", "is not set",
                "name the file that python -m autotrain_export wrote");
  }
  ExportedFile file = read_exported_file(path);
  check_samples(path, file, shape);
  return std::make_shared<Exported>(path, std::move(file));
}

}  // namespace

ModelRow exported_row() {
  return {{"exported",
           "A PyTorch module with its weights, as python -m autotrain_export writes it.",
           {text_key("file", "The file.")}},
          make_exported};
}

}  // namespace autotrain
