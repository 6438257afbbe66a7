#include "model/torchscript.h"

#include <ATen/MemoryOverlap.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <zlib.h>

#include <algorithm>
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
#include "model/script_file.h"
#include "model/script_state.h"

namespace autotrain {
namespace fs = std::filesystem;
namespace {

namespace jit = torch::jit;

// What went wrong stands last, below the traces of the script and above those of this program; of arguments
// that do not fit it stands first.
std::string reason_of(const std::string& text) {
  std::string reason;
  for (const std::string& line : split(text, '\n')) {
    const std::string_view words = trim(line);
    if (words.starts_with("Exception raised from")) break;
    if (words.empty() || words.starts_with("frame #")) continue;
    reason = std::string(words);
    if (words.find("Expected a value of type") != std::string_view::npos) break;
  }
  return reason;
}

// The interpreter turns whatever an operator throws into a text. Memory that was refused is told by its type.
[[noreturn]] void rethrow_from_interpreter(const std::exception& error, const std::string& path,
                                           const std::vector<c10::IValue>& given) {
  if (classify_failure(error) != Failure::kOther || is_of_device(error)) throw;
  const std::string text = error.what();
  if (text.find("out of memory") != std::string::npos) C10_THROW_ERROR(OutOfMemoryError, text);
  const std::string reason = reason_of(text);
  refuse_index(reason, path);
  std::vector<std::string> tensors;
  bool real = false;
  for (const c10::IValue& each : given) {
    tensors.push_back(cat(each.toTensor().sizes(), " ", each.toTensor().scalar_type()));
    real |= each.toTensor().is_floating_point();
  }
  const bool wants_whole = real && reason.find("Long, Int") != std::string::npos;
  throw Error(ExitCode::kBadRecipe, path, cat("fails on a batch of ", join(tensors, " and "), ": ", reason),
              wants_whole ? "data.train.inputs makes float32 of a .npy file, and arrays keep whole numbers: "
                            "arrays: [ids=FILE.npy] in its place"
                          : "it is called with a batch of data.train, where numbers are as their file has "
                            "them, [N] as [n] and [N, 1] as [n, 1]: script a module that takes such samples");
}

// What a recipe says of a script's inputs and outputs.
struct Signature {
  std::string output = {};  // the part that is the prediction; "": all
  std::string loss = {};    // the part that is the loss, or kWhole; "": none
  LossReduction reduction = LossReduction::kMean;
};

constexpr const char* kWhole = "all";  // what is returned is the loss

bool takes_tensor(const c10::Argument& argument) {
  return argument.type()->kind() == c10::TypeKind::TensorType ||
         c10::TensorType::get()->isSubtypeOf(*argument.type());
}

bool is_called_targets(const std::string& name) {
  static const std::set<std::string> kNames = {"labels", "label", "targets", "target", "y"};
  return kNames.contains(name);
}

// Hears PyTorch's own losses warn that they hold each prediction against every target: [n, 1] and [n] give
// [n, n]. Other warnings go where they went.
class BroadcastWatch final : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override {
    if (warning.msg().starts_with("Using a target size") && multiplies(warning.msg()))
      heard_ = warning.msg().substr(0, warning.msg().find(". "));
    else if (before_ != nullptr)
      before_->process(warning);
  }
  const std::string& heard() const { return heard_; }

 private:
  // The shapes of both stand in brackets.
  static bool multiplies(const std::string& text) {
    std::vector<std::vector<int64_t>> shapes;
    for (size_t at = text.find('['); at != std::string::npos; at = text.find('[', at + 1)) {
      std::vector<int64_t>& shape = shapes.emplace_back();
      for (const std::string& size : split(text.substr(at + 1, text.find(']', at) - at - 1), ',')) {
        if (int64_t number = 0; parse_integer(trim(size), number)) shape.push_back(number);
      }
    }
    return shapes.size() == 2 &&
           elements_of_both(shapes[0], shapes[1]) >
               std::max(c10::multiply_integers(shapes[0]), c10::multiply_integers(shapes[1]));
  }

  static int64_t elements_of_both(c10::IntArrayRef a, c10::IntArrayRef b) {
    int64_t elements = 1;
    for (size_t i = 1; i <= std::max(a.size(), b.size()); ++i)
      elements *= std::max(i <= a.size() ? a[a.size() - i] : 1, i <= b.size() ? b[b.size() - i] : 1);
    return elements;
  }

  c10::WarningHandler* const before_ = c10::WarningUtils::get_warning_handler();
  std::string heard_;
};

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
  Scripted(std::string path, Signature signature, ChosenInputs chosen, bool target_is_number)
      : path_(std::move(path)),
        signature_(std::move(signature)),
        chosen_(std::move(chosen)),
        target_is_number_(target_is_number),
        module_(load_script(path_)),
        digest_(digest_of_script(path_)) {
    check_script_trains(module_, path_);
    check_arguments();
    assigned_ = assigned_buffers(module_, path_);
    // A pass binds them anew, and what shared their memory does not follow.
    for (const AssignedBuffer& each : assigned_)
      each.owner->setAttr(each.attribute, each.owner->getAttr(each.attribute).toTensor().clone());
    make_parts();
    for (const auto& item : module_.named_parameters()) hold(item.name, item.value);
    for (const auto& item : module_.named_buffers())
      part_with(*this, item.name).register_buffer(last_part(item.name), item.value);
    find_parts();
    // The profiling executor compiles anew after some calls, in memory that no trial has seen.
    jit::getProfilingMode() = false;
  }

  torch::Tensor forward(torch::Tensor inputs) override { return predicted({fitted(inputs, 0)}, {}); }

  torch::Tensor predict(const Batch& batch) override { return predicted(given_of(batch), named_of(batch)); }

  bool has_own_loss() const override { return !signature_.loss.empty(); }
  bool predicts() const override { return !has_own_loss() || !signature_.output.empty(); }

  ModelsLoss own_loss(const Batch& batch) override {
    if (!has_own_loss()) return Network::own_loss(batch);
    const c10::IValue returned = call(given_of(batch), named_of(batch));
    const std::string& name = signature_.loss;
    const torch::Tensor loss = part_of(returned, name == kWhole ? "" : name, "model.loss", path_);
    if (loss.numel() != 1 || !loss.is_floating_point())
      throw Error(ExitCode::kBadRecipe, path_, cat("gives a loss of ", loss.sizes(), " ", loss.scalar_type()),
                  "return one number: the mean over the samples of a batch, or their sum");
    check_learns(loss, "loss");
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

  // It is called with its inputs and, for a loss of its own, with the targets if it takes them.
  void check_arguments() {
    const auto all = arguments();
    const size_t inputs = chosen_.infos().size();
    std::vector<std::string> names, needed;  // beside the inputs
    for (size_t i = 0; i < all.size(); ++i) {
      names.push_back(all[i].name());
      if (i < inputs && !takes_tensor(all[i]))
        throw Error(ExitCode::kBadRecipe, path_,
                    cat("takes ", quote(all[i].name()), " as ", all[i].type()->annotation_str(),
                        ", and is given a tensor, the inputs of a batch"),
                    "script a module that takes such samples");
      if (i >= inputs && !all[i].default_value()) needed.push_back(all[i].name());
    }
    if (inputs > all.size() || needed.size() > (has_own_loss() ? 1 : 0))
      throw Error(
          ExitCode::kBadRecipe, "model.inputs",
          cat(path_, " takes ", join(names, ", "), ", and is given ", inputs,
              inputs == 1 ? " input" : " inputs", has_own_loss() ? " and the targets" : ""),
          "name as many inputs of the data set in model.inputs; a module that takes the targets, too, "
          "says in model.loss what of its output is the loss");
    if (has_own_loss()) targets_ = needed.empty() ? optional_targets(all.slice(inputs)) : needed[0];
  }

  // The only tensor, or the one that is called so, of arguments that may be left out; "": none.
  std::string optional_targets(c10::ArrayRef<c10::Argument> rest) const {
    std::vector<std::string> tensors, called;
    for (const c10::Argument& argument : rest) {
      if (!takes_tensor(argument)) continue;
      tensors.push_back(argument.name());
      if (is_called_targets(argument.name())) called.push_back(argument.name());
    }
    if (called.size() == 1) return called[0];
    if (tensors.empty()) return "";
    if (tensors.size() == 1) return tensors[0];
    throw Error(ExitCode::kBadRecipe, path_,
                cat("may be given ", join(tensors, ", "),
                    " beside its inputs, and does not say which of them are the targets"),
                "call that argument targets or labels, or give it no default, and script it again");
  }

  // A number of its own in the data is one here.
  torch::Tensor fitted(const torch::Tensor& input, size_t place) const {
    return chosen_.infos()[place].is_number ? out_of_rows(input, {}) : input;
  }

  // The inputs that it takes.
  std::vector<c10::IValue> given_of(const Batch& batch) const {
    const std::vector<torch::Tensor> inputs = chosen_.of(batch);
    std::vector<c10::IValue> given;
    for (size_t i = 0; i < inputs.size(); ++i) given.emplace_back(fitted(inputs[i], i));
    return given;
  }

  // The targets, by their name, where it takes them and there are some.
  jit::Kwargs named_of(const Batch& batch) const {
    if (targets_.empty() || !batch.targets.defined()) return {};
    return {{targets_, target_is_number_ ? out_of_rows(batch.targets, {}) : batch.targets}};
  }

  c10::IValue call(std::vector<c10::IValue> given, const jit::Kwargs& named) {
    const torch::Device device = given.front().toTensor().device();
    if (device_ != device) module_.to(device);  // what is no parameter and no buffer
    device_ = device;
    const AdaptedWeights adapted(*this);
    Assignments assignments(assigned_, path_);
    BroadcastWatch watch;
    c10::IValue returned;
    try {
      const c10::WarningUtils::WarningHandlerGuard guard(&watch);
      returned = module_.forward(given, named);
    } catch (const std::exception& error) {
      for (const auto& [name, value] : named) given.push_back(value);
      rethrow_from_interpreter(error, path_, given);
    }
    if (has_own_loss() && !watch.heard().empty())
      throw Error(
          ExitCode::kBadRecipe, path_, cat("holds each prediction against every target: ", watch.heard()),
          "targets that are numbers are given as their file has them, [N] as [n] and [N, 1] as [n, 1]: "
          "have the module predict such, or save the array as the other");
    assignments.take_back();
    return returned;
  }

  torch::Tensor predicted(std::vector<c10::IValue> given, const jit::Kwargs& named) {
    if (!predicts())
      throw Error(ExitCode::kBadRecipe, path_, "gives its loss, and does not say what its prediction is",
                  "name the part in model.output");
    const torch::Tensor prediction =
        part_of(call(std::move(given), named), signature_.output, "model.output", path_);
    check_learns(prediction, "prediction");
    return in_rows(prediction);
  }

  // What trains it needs a gradient.
  void check_learns(const torch::Tensor& returned, const char* what) const {
    if (!is_training() || !torch::GradMode::is_enabled() || returned.requires_grad()) return;
    const auto all = parameters();
    if (std::ranges::none_of(all, [](const torch::Tensor& each) { return each.requires_grad(); })) return;
    throw Error(ExitCode::kBadRecipe, path_, cat("was made for inference: its ", what, " has no gradient"),
                "script it without torch.no_grad() and detach() on the way from its parameters to what it "
                "returns");
  }

  void hold(const std::string& name, const torch::Tensor& parameter) {
    const bool learns = parameter.requires_grad();
    if (learns && parameter.scalar_type() != torch::kFloat32)
      throw Error(ExitCode::kBadRecipe, path_,
                  cat("has parameter ", quote(name), " in ", parameter.scalar_type(), ", not in float32"),
                  "script module.float()");
    if (learns && at::has_internal_overlap(parameter) == at::MemOverlap::Yes)
      throw Error(
          ExitCode::kBadRecipe, path_,
          cat("has parameter ", quote(name), ", in which one number stands for several: an expanded tensor"),
          "make it of tensor.contiguous(), and script it again");
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

  // While the scope lasts the script has copies of the buffers that it assigns, which autograd may keep.
  class Assignments {
   public:
    Assignments(const std::vector<AssignedBuffer>& buffers, const std::string& path)
        : buffers_(buffers), path_(path) {
      const torch::NoGradGuard no_gradients;
      for (const AssignedBuffer& each : buffers_) {
        held_.push_back(each.owner->getAttr(each.attribute).toTensor());
        copies_.push_back(held_.back().clone());
      }
      for (size_t i = 0; i < buffers_.size(); ++i)
        buffers_[i].owner->setAttr(buffers_[i].attribute, copies_[i]);
    }
    ~Assignments() {
      for (size_t i = 0; i < buffers_.size(); ++i)
        buffers_[i].owner->setAttr(buffers_[i].attribute, held_[i]);
    }
    Assignments(const Assignments&) = delete;
    Assignments& operator=(const Assignments&) = delete;

    // Has the buffers hold what the pass left in their places. What no pass reads may have any shape.
    void take_back() {
      const torch::NoGradGuard no_gradients;
      for (size_t i = 0; i < buffers_.size(); ++i) {
        const torch::Tensor now = buffers_[i].owner->getAttr(buffers_[i].attribute).toTensor();
        const bool untouched = now.is_same(copies_[i]) && !now.is_inference() && now._version() == 0;
        if (untouched) continue;
        const bool fits =
            now.sizes() == held_[i].sizes() && (now.scalar_type() == held_[i].scalar_type() ||
                                                (now.is_floating_point() && held_[i].is_floating_point()));
        if (fits) held_[i].copy_(now);
        if (!fits && buffers_[i].is_read) refuse(buffers_[i].name, held_[i], now);
      }
    }

   private:
    [[noreturn]] void refuse(const std::string& name, const torch::Tensor& held,
                             const torch::Tensor& now) const {
      throw Error(
          ExitCode::kBadRecipe, path_,
          cat("puts a tensor ", now.sizes(), " ", now.scalar_type(), " in the place of its buffer ",
              quote(name), ", which is ", held.sizes(), " ", held.scalar_type()),
          "a buffer keeps its shape and type, by which checkpoints hold it: register it so, and script "
          "the module again");
    }

    const std::vector<AssignedBuffer>& buffers_;
    const std::string& path_;
    std::vector<torch::Tensor> held_, copies_;
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
  bool target_is_number_;
  jit::Module module_;
  std::string digest_;
  std::vector<PartOfScript> parts_;
  std::vector<Adapted> adapted_;
  std::vector<AssignedBuffer> assigned_;
  std::string targets_;  // the argument that they are; "": none
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
  return std::make_shared<Scripted>(path, std::move(signature), ChosenInputs(p.texts("inputs"), shape),
                                    shape.target_is_number);
}

}  // namespace

std::string digest_of_script(const fs::path& path) {
  const std::string bytes = read_file(path, int64_t{1} << 40);
  return cat(bytes.size(), " ", ::crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

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
                 "The part that is its loss, which it computes itself from the targets, one argument more: "
                 "a key, a number, or all; for loss: {name: model}."),
        word_key("reduction", "What such a loss is of the samples of a batch.", {"mean", "sum"}, "mean")}},
      make_torchscript,
      /*is_program=*/true};
}

}  // namespace autotrain
