#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <algorithm>
#include <ostream>
#include <utility>

#include "autotrain/error.h"
#include "base/text.h"
#include "model/chosen_inputs.h"
#include "model/exported_file.h"
#include "model/graph_pass.h"
#include "model/graph_recompute.h"
#include "model/graph_uses.h"
#include "model/models.h"
#include "model/name_patterns.h"
#include "model/one_number.h"
#include "model/parts.h"

namespace autotrain {
namespace {

// Runs a part of the backward half of a pass, as far as some gradients need it. A part's last edge leads to
// the next part, but for the last one's. Autograd adds what a part hands on to what is accumulated before it
// comes to the next, so that not all gradients of a pass are there at once.
struct PassBackward final : torch::autograd::Node {
  // @param gradients how many the part hands on.
  PassBackward(std::shared_ptr<graph::Pass> pass, size_t gradients, bool is_first,
               torch::autograd::edge_list edges)
      : Node(std::move(edges)), pass_(std::move(pass)), gradients_(gradients), is_first_(is_first) {}

  torch::autograd::variable_list apply(torch::autograd::variable_list&& cotangents) override {
    TORCH_CHECK(pass_ != nullptr, "what an exported model returns is differentiated once");
    const std::shared_ptr<graph::Pass> pass = std::move(pass_);
    torch::autograd::variable_list handed_on(num_outputs());
    if (is_first_ && cotangents.at(0).defined()) pass->begin_backward(cotangents[0].contiguous());
    cotangents.clear();
    if (!pass->goes_back()) return handed_on;
    for (size_t i = 0; i < gradients_; ++i) handed_on[i] = pass->next_gradient();
    return handed_on;
  }

  void release_variables() override { pass_.reset(); }

 private:
  std::shared_ptr<graph::Pass> pass_;
  size_t gradients_;
  bool is_first_;
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

std::string in_words(torch::ScalarType type, c10::IntArrayRef shape) {
  return cat(c10::toString(type), " of the shape ", shape);
}

std::string in_words(const torch::Tensor& batch) {
  return in_words(batch.scalar_type(), batch.dim() > 0 ? batch.sizes().slice(1) : c10::IntArrayRef());
}

// Of the input with that number.
std::string samples_of(const ExportedFile& file, size_t input) {
  const InputInfo& info = file.inputs[input];
  const std::string name =
      file.inputs.size() == 1 ? "samples" : cat("as input ", quote(info.name), " samples");
  return cat(name, " of ", in_words(info.type, info.shape));
}

// What may be done about samples that are not such as the file takes.
std::string cure_of_samples(const InputInfo& taken, torch::ScalarType given) {
  if (taken.type != torch::kFloat32 && given == torch::kFloat32) {
    const bool is_name = taken.name.find(' ') == std::string::npos;
    return cat(
        "data.train.inputs makes float32 of a .npy file, and arrays keep whole numbers and bool (bytes of "
        "three or four axes are images: save int64): arrays: [",
        is_name ? taken.name : "tokens", "=FILE.npy] in its place; or change data.train");
  }
  return "export it with an --example of such samples, or change data.train";
}

[[noreturn]] void fail_count(const std::string& path, const ExportedFile& file, size_t given) {
  std::vector<std::string> names;
  for (const InputInfo& input : file.inputs) names.push_back(input.name);
  throw Error(ExitCode::kBadRecipe, "model.inputs",
              cat(path, " takes ", file.inputs.size(), file.inputs.size() == 1 ? " input, " : " inputs, ",
                  join(names, ", "), ", and is given ", given),
              "name as many of those that the data set has, in this order");
}

class Exported final : public Network {
 public:
  Exported(std::string path, ExportedFile file, ChosenInputs chosen)
      : path_(std::move(path)), file_(std::move(file)), chosen_(std::move(chosen)) {
    for (const ExportedFile::Parameter& parameter : file_.parameters) {
      make_parts_of(parameter.tensor.name);
      hold(parameter.tensor.name, parameter.tensor.tensor, parameter.learns);
    }
    for (const NamedTensor& buffer : file_.buffers) {
      part_with(*this, buffer.name).register_buffer(last_part(buffer.name), buffer.tensor);
      tensors_.push_back(buffer.tensor);
    }
    for (const auto& [name, first_name] : file_.other_names) tie(name, first_name);
    if (file_.loss) find_predictions();
  }

  torch::Tensor forward(torch::Tensor inputs) override { return predicted({std::move(inputs)}); }
  torch::Tensor predict(const Batch& batch) override { return predicted(chosen_.of(batch)); }

  bool has_own_loss() const override { return file_.loss.has_value(); }
  bool predicts() const override {
    return !file_.loss || file_.graphs.begin()->second.evaluation->prediction_beside.has_value();
  }

  ModelsLoss own_loss(const Batch& batch) override {
    if (!file_.loss) return Network::own_loss(batch);
    const std::vector<torch::Tensor> given = all_given(batch);
    const ExportedFile::Graphs& graphs = graphs_for(given.front().device().type());
    const Output output = run(is_training() ? graphs.training : graphs.evaluation, given);
    return {terms_of(output.value, *file_.loss, batch.samples), in_rows(output.prediction_beside)};
  }

  bool computes_in(Precision precision) const override {
    return file_.graphs.contains(name_of_graphs(precision));
  }
  bool casts_itself() const override { return true; }
  int64_t smallest_batch() const override { return file_.smallest_batch; }
  std::string fingerprint() const override { return file_.digest; }

  RecomputedBytes recompute(const Batch& batch, Precision precision) override {
    constexpr double kMostWork = 64;    // bytes moved for each that is not kept
    constexpr double kMostShare = 0.2;  // of a pass
    const std::vector<torch::Tensor> given = all_given(batch);
    const std::string name = name_of_graphs(precision);
    graphs_in(name);
    std::shared_ptr<const graph::Graph>& training = file_.graphs.at(name).training;
    const graph::Recomputation again =
        graph::recompute(*training, costs_of(training, given), kMostWork, kMostShare);
    kept_ = {name, training};
    training = std::make_shared<const graph::Graph>(again.graph);
    return {.before = again.bytes_before, .kept = again.kept_bytes, .operators = again.operators};
  }

  void keep() override {
    if (kept_) file_.graphs.at(kept_->first).training = kept_->second;
    kept_.reset();
  }

  // Keys of kept plans are made of what modules print.
  void pretty_print(std::ostream& stream) const override {
    stream << "exported " << file_.digest << (kept_ ? " recomputed" : "");
  }

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
  // Makes the parts that a tensor lies in, in the order in which the file has its tensors, with what Python
  // calls their kinds. A weight that has several names keeps its first one so.
  void make_parts_of(const std::string& tensor) {
    for (size_t dot = tensor.find('.'); dot != std::string::npos; dot = tensor.find('.', dot + 1)) {
      const auto type = file_.module_types.find(tensor.substr(0, dot));
      if (type != file_.module_types.end()) make_part(*this, type->first, type->second);
    }
  }

  struct Output {
    torch::Tensor value;
    torch::Tensor prediction_beside;
  };

  Output run(const std::shared_ptr<const graph::Graph>& graph, const std::vector<torch::Tensor>& given) {
    const std::vector<torch::Tensor> weights = weights_in_use();
    auto pass = std::make_shared<graph::Pass>(graph, with_constants_and(given, weights));
    Output output{pass->forward(), pass->prediction_beside()};
    if (graph->given.training && torch::GradMode::is_enabled())
      differentiate(output.value, graph->ready, std::move(pass), weights);
    return output;
  }

  // Of one pass over copies of what it writes to.
  graph::GraphCosts costs_of(const std::shared_ptr<const graph::Graph>& training,
                             const std::vector<torch::Tensor>& given) {
    const torch::NoGradGuard no_gradients;
    std::vector<torch::Tensor> weights = weights_in_use();
    for (size_t i = file_.parameters.size(); i < weights.size(); ++i) weights[i] = weights[i].clone();
    graph::GraphCosts costs(*training);
    graph::Pass pass(training, with_constants_and(given, std::move(weights)));
    pass.measure_into(&costs);
    pass.backward(torch::ones_like(pass.forward()));
    return costs;
  }

  torch::Tensor predicted(std::vector<torch::Tensor> inputs) {
    fit_inputs(inputs);
    const auto device = inputs.front().device().type();
    const ExportedFile::Graphs& graphs = graphs_for(device);
    if (!file_.loss) return in_rows(run(is_training() ? graphs.training : graphs.evaluation, inputs).value);
    if (file_.targets) inputs.emplace_back();
    const auto found = predictions_.find(precision_in_force(device));
    if (found != predictions_.end()) return in_rows(run(found->second, inputs).value);
    throw Error(
        ExitCode::kBadRecipe, path_,
        predicts() ? "computes its predictions from the targets, too" : "gives its loss alone, no prediction",
        "export a module that returns predictions of its inputs: --output-part names them");
  }

  // Graphs that make predictions without their targets.
  void find_predictions() {
    for (const auto& [precision, graphs] : file_.graphs) {
      if (!graphs.evaluation->prediction_beside) continue;
      graph::Graph graph = graph::prediction_alone(*graphs.evaluation);
      const bool needs_targets = file_.targets && graph::uses(graph, graph.given.count_in_forward() - 1);
      if (!needs_targets) predictions_[precision] = std::make_shared<const graph::Graph>(std::move(graph));
    }
  }

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
    return graphs_in(precision_in_force(device));
  }

  const ExportedFile::Graphs& graphs_in(const std::string& precision) const {
    const auto found = file_.graphs.find(precision);
    if (found != file_.graphs.end()) return found->second;
    throw Error(ExitCode::kBadRecipe, path_, cat("has no graphs for ", precision),
                cat("set execution.precision: ", file_.graphs.begin()->first,
                    ", or export it again with --precision ", precision));
  }

  // The inputs and, for a module that computes its loss from them, the targets.
  std::vector<torch::Tensor> all_given(const Batch& batch) const {
    std::vector<torch::Tensor> given = chosen_.of(batch);
    fit_inputs(given);
    if (file_.loss && file_.targets) given.push_back(fitted_targets(batch.targets));
    return given;
  }

  void fit_inputs(std::vector<torch::Tensor>& inputs) const {
    if (inputs.size() != file_.inputs.size()) fail_count(path_, file_, inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      inputs[i] = out_of_rows(inputs[i], file_.inputs[i].shape);
      if (is_like(inputs[i], file_.inputs[i])) continue;
      throw Error(ExitCode::kBadRecipe, path_,
                  cat("takes ", samples_of(file_, i), "; these are ", in_words(inputs[i])),
                  cure_of_samples(file_.inputs[i], inputs[i].scalar_type()));
    }
  }

  torch::Tensor fitted_targets(const torch::Tensor& given) const {
    torch::Tensor targets = out_of_rows(given, file_.targets->shape);
    if (!targets.defined() || !is_like(targets, *file_.targets)) {
      throw Error(
          ExitCode::kBadRecipe, path_,
          cat("computes its loss from targets of ", in_words(file_.targets->type, file_.targets->shape),
              " for a sample; ", targets.defined() ? cat("these are ", in_words(targets)) : "there are none"),
          "export it with --targets like those of data.train; of boxes, data.train.boxes says how many rows "
          "each sample has");
    }
    for (const int64_t value : file_.unusable_targets) {
      if (!(targets == value).any().item<bool>()) continue;
      throw Error(ExitCode::kBadData, path_,
                  cat("is given the target ", value,
                      ", which its loss ignores: such a mean over a micro-batch has another weight than its "
                      "samples"),
                  "leave such samples out, or export the module without its loss and name it in the recipe");
    }
    return targets;
  }

  static bool is_like(const torch::Tensor& tensor, const InputInfo& info) {
    return tensor.dim() > 0 && tensor.sizes().slice(1) == c10::IntArrayRef(info.shape) &&
           tensor.scalar_type() == info.type;
  }

  // Parameters and buffers, with what adapters make of a weight in its place.
  std::vector<torch::Tensor> weights_in_use() const {
    std::vector<torch::Tensor> weights = tensors_;
    for (const auto& [place, adapter] : adapter_of_) {
      if (adapter) weights[place] = adapter->effective();
    }
    return weights;
  }

  std::vector<torch::Tensor> with_constants_and(const std::vector<torch::Tensor>& given,
                                                std::vector<torch::Tensor> tensors) {
    const torch::Device device = given.front().device();
    for (torch::Tensor& constant : file_.constants) {
      if (constant.device() != device) constant = constant.to(device);
      tensors.push_back(constant);
    }
    tensors.insert(tensors.end(), given.begin(), given.end());
    return tensors;
  }

  // From the last part to the first: each is made with the edge to the next one.
  void differentiate(torch::Tensor& output, const std::vector<graph::ReadyGradient>& ready,
                     std::shared_ptr<graph::Pass> pass, const std::vector<torch::Tensor>& weights) const {
    constexpr size_t kWorthAPart = 1 << 20;  // bytes of gradients
    std::shared_ptr<PassBackward> next;
    size_t end = ready.size();
    do {
      size_t begin = end, bytes = 0;
      while (begin > 0) {
        bytes += weights[learning_[ready[begin - 1].number]].nbytes();
        if (begin < end && bytes > kWorthAPart) break;
        --begin;
      }
      torch::autograd::variable_list handed_on;
      for (size_t i = begin; i < end; ++i) handed_on.push_back(weights[learning_[ready[i].number]]);
      torch::autograd::edge_list edges = torch::autograd::collect_next_edges(handed_on);
      if (next) edges.emplace_back(next, 0);
      const bool is_first = begin == 0;
      next = std::shared_ptr<PassBackward>(new PassBackward(pass, end - begin, is_first, std::move(edges)),
                                           torch::autograd::deleteNode);
      if (!is_first) next->add_input_metadata(output);  // the device on which autograd is to run it
      end = begin;
    } while (end > 0);
    torch::autograd::set_history(output, next);
  }

  std::string path_;
  ExportedFile file_;
  std::optional<std::pair<std::string, std::shared_ptr<const graph::Graph>>> kept_ =
      {};  // while the graph of a precision computes again: the one that keeps
  ChosenInputs chosen_;
  std::map<std::string, std::shared_ptr<const graph::Graph>> predictions_;  // beside a loss, by precision
  std::vector<torch::Tensor> tensors_;  // parameters and buffers, in the order in which graphs take them
  std::vector<size_t> learning_;        // the numbers of those that have gradients
  std::map<size_t, std::shared_ptr<const Adapter>> adapter_of_;  // by the number of a parameter
};

void check_samples(const std::string& path, const ExportedFile& file, const SampleShape& shape,
                   const std::vector<InputInfo>& chosen) {
  if (file.classes > 0 && file.classes < shape.classes) {
    throw Error(ExitCode::kBadRecipe, "model.file",
                cat(path, " predicts ", file.classes, " classes; data.train has ", shape.classes),
                "export a module that predicts them all, with the classes last; a target that stands for no "
                "class, as 255 does in masks, is loss.ignore_index");
  }
  if (chosen.size() != file.inputs.size()) fail_count(path, file, chosen.size());
  for (size_t i = 0; i < chosen.size(); ++i) {
    const bool fits =
        file.inputs[i].shape == chosen[i].shape || are_rows_of_one(file.inputs[i].shape, chosen[i].shape);
    if (file.inputs[i].type == chosen[i].type && fits) continue;
    throw Error(ExitCode::kBadRecipe, "model.file",
                cat(path, " takes ", samples_of(file, i), "; those of data.train are ",
                    in_words(chosen[i].type, chosen[i].shape)),
                cure_of_samples(file.inputs[i], chosen[i].type));
  }
}

std::shared_ptr<Network> make_exported(const Parameters& p, const SampleShape& shape) {
  const std::string path = p.text("file");
  if (path.empty()) {
    throw Error(ExitCode::kBadRecipe, "model.file", "is not set",
                "name the file that python -m autotrain_export wrote");
  }
  ExportedFile file = read_exported_file(path);
  if (!file.loss || file.targets) check_has_targets("exported", shape);
  ChosenInputs chosen(p.texts("inputs"), shape);
  check_samples(path, file, shape, chosen.infos());
  return std::make_shared<Exported>(path, std::move(file), std::move(chosen));
}

}  // namespace

ModelRow exported_row() {
  return {{"exported",
           "A PyTorch module with its weights, as python -m autotrain_export writes it.",
           {text_key("file", "The file."), inputs_key()}},
          make_exported,
          /*is_program=*/true};
}

}  // namespace autotrain
