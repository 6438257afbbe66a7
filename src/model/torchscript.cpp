#include "model/torchscript.h"

#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/version.h>
#include <zlib.h>

#include <map>
#include <ostream>
#include <set>

#include "autotrain/error.h"
#include "base/files.h"
#include "base/text.h"
#include "device/failure.h"
#include "model/chosen_inputs.h"
#include "model/index_error.h"
#include "model/models.h"
#include "model/one_number.h"
#include "model/parts.h"

namespace autotrain {
namespace fs = std::filesystem;
namespace {

namespace jit = torch::jit;

constexpr const char* kScriptIt =
    "write it with torch.jit.script(module).save(file), in PyTorch " TORCH_VERSION;

jit::Module load_script(const fs::path& path) {
  if (!fs::exists(path)) {
    throw Error(
        ExitCode::kMissingFile, path.string(), "there is no such file",
        cat("model.file names a TorchScript file, from the folder ", fs::current_path().string(), " on"));
  }
  try {
    return jit::load(path.string(), torch::kCPU);
  } catch (const std::exception& error) {
    if (classify_failure(error) != Failure::kOther) throw;
    throw Error(ExitCode::kBadData, path.string(),
                "is no TorchScript file that this program can read: " + first_line(error), kScriptIt);
  }
}

// A module that was traced does in every mode what it did in the one in which it was traced: its operators
// hold the mode as a constant, where scripted ones ask the module.
void check_modes(const jit::Block& block, const std::string& path) {
  for (const jit::Node* const node : block.nodes()) {
    for (const jit::Block* const inner : node->blocks()) check_modes(*inner, path);
    const c10::FunctionSchema* const schema = node->maybeSchema();
    if (schema == nullptr) continue;
    for (size_t i = 0; i < schema->arguments().size() && i < node->inputs().size(); ++i) {
      const std::string& name = schema->arguments()[i].name();
      if ((name != "train" && name != "training") || !jit::toIValue(node->input(i))) continue;
      throw Error(ExitCode::kBadRecipe, path,
                  cat("is fixed to one mode in ", node->kind().toQualString(),
                      ": it was traced, and train() and eval() change nothing in it"),
                  "script it: torch.jit.script(module); or export it with python -m autotrain_export");
    }
  }
}

void check_modes(const jit::Module& module, const std::string& path) {
  const auto forward = module.find_method("forward");
  if (!forward) throw Error(ExitCode::kBadData, path, "has no method forward", kScriptIt);
  const std::shared_ptr<jit::Graph> graph = forward->graph()->copy();
  jit::Inline(*graph);
  check_modes(*graph->block(), path);
}

std::string digest_of(const fs::path& path) {
  const std::string bytes = read_file(path, int64_t{1} << 40);
  return cat(bytes.size(), " ", ::crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

// The interpreter turns whatever an operator throws into a text. Memory that was refused is told by its type.
[[noreturn]] void rethrow_from_interpreter(const std::exception& error, const std::string& path,
                                           const std::vector<c10::IValue>& given) {
  if (classify_failure(error) != Failure::kOther || is_of_device(error)) throw;
  const std::string text = error.what();
  if (text.find("out of memory") != std::string::npos) C10_THROW_ERROR(OutOfMemoryError, text);
  // What went wrong stands last, below the traces of the script.
  std::string reason = first_line(error);
  for (const std::string& line : split(text, '\n')) {
    if (!trim(line).empty()) reason = std::string(trim(line));
  }
  refuse_index(reason, path);
  std::vector<std::string> tensors;
  for (const c10::IValue& each : given)
    tensors.push_back(cat(each.toTensor().sizes(), " ", each.toTensor().scalar_type()));
  throw Error(ExitCode::kBadRecipe, path, cat("fails on a batch of ", join(tensors, " and "), ": ", reason),
              "it is called with a batch of data.train: script a module that takes such samples");
}

// What a recipe says of a script's inputs and outputs.
struct Signature {
  std::string output = {};  // the part that is the prediction; "": all
  std::string loss = {};    // the part that is the loss, or kWhole; "": none
  LossReduction reduction = LossReduction::kMean;
};

constexpr const char* kWhole = "all";  // what is returned is the loss

std::vector<std::pair<std::string, c10::IValue>> parts_of(const c10::IValue& value) {
  std::vector<std::pair<std::string, c10::IValue>> parts;
  if (value.isGenericDict()) {
    for (const auto& item : value.toGenericDict())
      parts.emplace_back(item.key().isString() ? item.key().toStringRef() : cat(item.key()), item.value());
  } else if (value.isTuple()) {
    const c10::TypePtr type = value.type();
    const auto& names = type->expectRef<c10::TupleType>().schema();  // of a named tuple
    const auto& elements = value.toTupleRef().elements();
    for (size_t i = 0; i < elements.size(); ++i)
      parts.emplace_back(names ? names->arguments()[i].name() : std::to_string(i), elements[i]);
  } else if (value.isList()) {
    for (const c10::IValue& element : value.toListRef())
      parts.emplace_back(std::to_string(parts.size()), element);
  }
  return parts;
}

// One part of what a script returned.
torch::Tensor part_of(const c10::IValue& returned, const std::string& name, const char* key,
                      const std::string& path) {
  if (name.empty() && returned.isTensor()) return returned.toTensor();
  std::vector<std::string> names;
  const auto parts = parts_of(returned);
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool asked = parts[i].first == name || std::to_string(i) == name;
    if (asked && parts[i].second.isTensor()) return parts[i].second.toTensor();
    names.push_back(parts[i].first);
  }
  const std::string there = names.empty() ? "" : cat(" with the parts ", join(names, ", "));
  if (name.empty())
    throw Error(ExitCode::kBadRecipe, path, cat("returns ", returned.tagKind(), there, ", not a tensor"),
                cat("say which part: ", key));
  const std::string near = nearest(name, names);
  throw Error(ExitCode::kBadRecipe, key,
              cat("is ", quote(name), ", and ", path, " returns ", returned.tagKind(), there),
              near.empty() ? "name a tensor among these" : cat("did you mean ", quote(near), "?"));
}

class Scripted final : public Network {
 public:
  Scripted(std::string path, Signature signature, ChosenInputs chosen)
      : path_(std::move(path)),
        signature_(std::move(signature)),
        chosen_(std::move(chosen)),
        module_(load_script(path_)),
        digest_(digest_of(path_)) {
    check_modes(module_, path_);
    check_arguments();
    make_parts();
    for (const auto& item : module_.named_parameters()) hold(item.name, item.value);
    for (const auto& item : module_.named_buffers())
      part_with(*this, item.name).register_buffer(last_part(item.name), item.value);
    if (parameters().empty())
      throw Error(ExitCode::kBadData, path_, "has no parameters: it was frozen for inference", kScriptIt);
    find_parts();
    // The profiling executor compiles anew after some calls, in memory that no trial has seen.
    jit::getProfilingMode() = false;
  }

  torch::Tensor forward(torch::Tensor inputs) override { return predicted({std::move(inputs)}); }

  torch::Tensor predict(const Batch& batch) override { return predicted(given_of(batch)); }

  bool has_own_loss() const override { return !signature_.loss.empty(); }
  bool predicts() const override { return !has_own_loss() || !signature_.output.empty(); }

  ModelsLoss own_loss(const Batch& batch) override {
    if (!has_own_loss()) return Network::own_loss(batch);
    const c10::IValue returned = call(given_of(batch));
    const std::string& name = signature_.loss;
    const torch::Tensor loss = part_of(returned, name == kWhole ? "" : name, "model.loss", path_);
    if (loss.numel() != 1 || !loss.is_floating_point())
      throw Error(ExitCode::kBadRecipe, path_, cat("gives a loss of ", loss.sizes(), " ", loss.scalar_type()),
                  "return one number: the mean over the samples of a batch, or their sum");
    return {terms_of(loss, signature_.reduction, batch.samples),
            predicts() && !is_training()
                ? in_rows(part_of(returned, signature_.output, "model.output", path_))
                : torch::Tensor()};
  }

  // The script's own parts follow those that stand for them here.
  void train(bool on) override {
    Network::train(on);
    for (auto& [script, part, stays] : parts_) {
      if (stays) part->train(false);
      if (script.hasattr("training")) script.setattr("training", part->is_training());
    }
  }

  bool casts_itself() const override { return true; }
  std::string fingerprint() const override { return digest_; }
  void pretty_print(std::ostream& stream) const override { stream << "torchscript " << digest_; }

 protected:
  std::string cannot_adapt(const torch::Tensor& weight) const override {
    for (const Slot& slot : slots_of(weight)) {
      if (slot.script.type()->name()->name().find("Embedding") != std::string::npos) return "is an embedding";
    }
    return "";
  }

  void use(const torch::Tensor& weight, std::shared_ptr<const Adapter> adapter) override {
    std::erase_if(adapted_, [&](const Adapted& each) { return each.adapter->weight.is_same(weight); });
    if (adapter) adapted_.push_back({std::move(adapter), slots_of(weight)});
  }

 private:
  // Those of its method forward, without the module itself.
  c10::ArrayRef<c10::Argument> arguments() const {
    return c10::ArrayRef<c10::Argument>(module_.get_method("forward").function().getSchema().arguments())
        .slice(1);
  }

  // It is called with its inputs and, for a loss of its own, with the targets if it takes one tensor more.
  void check_arguments() const {
    const auto all = arguments();
    size_t needed = 0;
    std::vector<std::string> names;
    for (const c10::Argument& argument : all) {
      names.push_back(argument.name());
      needed += argument.default_value() ? 0 : 1;
    }
    const size_t inputs = chosen_.infos().size();
    const size_t most = inputs + (has_own_loss() ? 1 : 0);
    if (inputs <= all.size() && needed <= most) return;
    throw Error(ExitCode::kBadRecipe, "model.inputs",
                cat(path_, " takes ", join(names, ", "), ", and is given ", inputs,
                    inputs == 1 ? " input" : " inputs", has_own_loss() ? " and the targets" : ""),
                "name as many inputs of the data set in model.inputs; a module that takes the targets, too, "
                "says in model.loss what of its output is the loss");
  }

  // The inputs that it takes and, for a loss of its own, the targets where there are some.
  std::vector<c10::IValue> given_of(const Batch& batch) const {
    const std::vector<torch::Tensor> inputs = chosen_.of(batch);
    std::vector<c10::IValue> given(inputs.begin(), inputs.end());
    if (has_own_loss() && batch.targets.defined() && given.size() < arguments().size())
      given.emplace_back(batch.targets);
    return given;
  }

  c10::IValue call(const std::vector<c10::IValue>& given) {
    const torch::Device device = given.front().toTensor().device();
    if (device_ != device) module_.to(device);  // what is no parameter and no buffer
    device_ = device;
    const AdaptedWeights adapted(*this);
    try {
      return module_.forward(given);
    } catch (const std::exception& error) {
      rethrow_from_interpreter(error, path_, given);
    }
  }

  torch::Tensor predicted(std::vector<c10::IValue> given) {
    if (!predicts())
      throw Error(ExitCode::kBadRecipe, path_, "gives its loss, and does not say what its prediction is",
                  "name the part in model.output");
    return in_rows(part_of(call(given), signature_.output, "model.output", path_));
  }

  void hold(const std::string& name, const torch::Tensor& parameter) {
    const bool learns = parameter.requires_grad();
    if (learns && parameter.scalar_type() != torch::kFloat32)
      throw Error(ExitCode::kBadRecipe, path_,
                  cat("has parameter ", quote(name), " in ", parameter.scalar_type(), ", not in float32"),
                  "script module.float()");
    part_with(*this, name).register_parameter(last_part(name), parameter, learns);
  }

  struct PartOfScript {
    jit::Module script;
    torch::nn::Module* part;
    bool stays = false;  // in evaluation mode
  };

  // Where a script's part keeps a tensor.
  struct Slot {
    jit::Module script;
    std::string name;
  };

  struct Adapted {
    std::shared_ptr<const Adapter> adapter;
    std::vector<Slot> slots;
  };

  // What adapters make of weights stands in their place while the scope lasts.
  class AdaptedWeights {
   public:
    explicit AdaptedWeights(Scripted& model) : model_(model) {
      std::vector<torch::Tensor> effective;  // memory may be refused: before anything is changed
      for (const Adapted& each : model_.adapted_) effective.push_back(each.adapter->effective());
      for (size_t i = 0; i < effective.size(); ++i) put(model_.adapted_[i], effective[i]);
    }
    ~AdaptedWeights() {
      for (const Adapted& each : model_.adapted_) put(each, each.adapter->weight);
    }
    AdaptedWeights(const AdaptedWeights&) = delete;
    AdaptedWeights& operator=(const AdaptedWeights&) = delete;

   private:
    static void put(const Adapted& adapted, const torch::Tensor& tensor) {
      for (const Slot& slot : adapted.slots) slot.script._ivalue()->setAttr(slot.name, tensor);
    }
    Scripted& model_;
  };

  std::vector<Slot> slots_of(const torch::Tensor& weight) const {
    std::vector<Slot> slots;
    for (const jit::Module& part : module_.modules()) {
      for (const auto& item : part.named_parameters(/*recurse=*/false)) {
        if (item.value.is_same(weight)) slots.push_back({part, item.name});
      }
    }
    return slots;
  }

  // Those that own parameters, by their types' names.
  void make_parts() {
    for (const auto& item : module_.named_modules()) {
      const auto& type = item.value.type()->name();
      if (item.name.empty() || !type || item.value.named_parameters(/*recurse=*/false).size() == 0) continue;
      make_part(*this, item.name, type->name());
    }
  }

  // Parts that are in evaluation mode while the module is in training mode stay so, as in Python.
  void find_parts() {
    const bool training = module_.hasattr("training") && module_.is_training();
    for (const auto& item : module_.named_modules()) {
      torch::nn::Module& part = item.name.empty() ? *this : part_with(*this, item.name + ".");
      const bool stays = training && item.value.hasattr("training") && !item.value.is_training();
      parts_.push_back({item.value, &part, stays});
    }
    train(true);
  }

  std::string path_;
  Signature signature_;
  ChosenInputs chosen_;
  jit::Module module_;
  std::string digest_;
  std::vector<PartOfScript> parts_;
  std::vector<Adapted> adapted_;
  torch::Device device_ = torch::kCPU;
};

std::shared_ptr<Network> make_torchscript(const Parameters& p, const SampleShape& shape) {
  const std::string path = p.text("file");
  if (path.empty())
    throw Error(ExitCode::kBadRecipe, "model.file", "is not set",
                "name the file that torch.jit.script(module).save wrote");
  Signature signature{.output = p.text("output"),
                      .loss = p.text("loss"),
                      .reduction = p.text("reduction") == "sum" ? LossReduction::kSum : LossReduction::kMean};
  if (signature.loss.empty()) check_has_targets("torchscript", shape);
  return std::make_shared<Scripted>(path, std::move(signature), ChosenInputs(p.texts("inputs"), shape));
}

}  // namespace

void write_torchscript(const fs::path& from, const std::vector<NamedTensor>& tensors, const fs::path& to) {
  const torch::NoGradGuard no_gradients;
  jit::Module module = load_script(from);
  std::map<std::string, torch::Tensor> by_name;
  for (const NamedTensor& item : tensors) by_name.emplace(item.name, item.tensor);
  std::set<std::string> left;
  for (const NamedTensor& item : tensors) left.insert(item.name);
  const auto fill = [&](const std::string& name, const torch::Tensor& target) {
    const auto found = by_name.find(name);
    if (found == by_name.end() || found->second.sizes() != target.sizes())
      throw Error(ExitCode::kBadData, from.string(),
                  cat("has the tensor ", quote(name), " ", target.sizes(), ", which the run has not"),
                  "it is not the file that the run was begun with");
    target.copy_(found->second);
    left.erase(name);
  };
  for (const auto& item : module.named_parameters()) fill(item.name, item.value);
  for (const auto& item : module.named_buffers()) fill(item.name, item.value);
  if (!left.empty())
    throw Error(ExitCode::kBadData, from.string(), cat("lacks the tensor ", quote(*left.begin())),
                "it is not the file that the run was begun with");
  module.save(to.string());
}

ModelRow torchscript_row() {
  return {
      {"torchscript",
       "A TorchScript module with its weights, as torch.jit.script(module).save(file) writes it.",
       {text_key("file", "The file."), inputs_key(),
        text_key("output",
                 "The part of what it returns that is the prediction: a key of a dictionary, or a number of "
                 "a tuple; null: all of it."),
        text_key("loss",
                 "The part that is its loss, which it computes itself from the targets, its last argument: "
                 "a key, a number, or all; for loss: {name: model}."),
        word_key("reduction", "What such a loss is of the samples of a batch.", {"mean", "sum"}, "mean")}},
      make_torchscript,
      /*is_program=*/true};
}

}  // namespace autotrain
