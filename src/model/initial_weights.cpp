#include "model/initial_weights.h"

#include <algorithm>
#include <map>
#include <regex>
#include <set>

#include "autotrain/error.h"
#include "base/text.h"
#include "checkpoint/finite_weights.h"
#include "checkpoint/safetensors.h"
#include "model/compressed_file.h"
#include "model/models.h"
#include "recipe/patterns.h"

namespace autotrain {
namespace {

// Names of the file as the model's, by the first expression that matches.
class Renaming {
 public:
  explicit Renaming(const std::vector<std::string>& rules) {
    for (const std::string& rule : rules) {
      const size_t arrow = rule.find(" -> ");
      try {
        std::regex expression;
        expression.imbue(std::locale::classic());
        expression.assign(rule.substr(0, arrow));
        rules_.push_back({rule, std::move(expression), rule.substr(arrow + 4)});
      } catch (const std::regex_error& error) {
        throw Error(ExitCode::kBadRecipe, "model.weights.rename",
                    cat(quote(rule.substr(0, arrow)), " is no regular expression: ", error.what()),
                    "write a dot as \\\\. and what $1 stands for in parentheses");
      }
    }
  }

  std::string operator()(const std::string& name) const {
    const Rule* const rule = rule_for(name);
    return rule == nullptr ? name : std::regex_replace(name, rule->expression, rule->replacement);
  }

  // The rules that rename none of these tensors.
  std::vector<std::string> idle(const std::vector<TensorEntry>& entries) const {
    std::set<const Rule*> used;
    for (const TensorEntry& entry : entries) used.insert(rule_for(entry.name));
    std::vector<std::string> texts;
    for (const Rule& rule : rules_) {
      if (!used.contains(&rule)) texts.push_back(rule.text);
    }
    return texts;
  }

 private:
  struct Rule {
    std::string text;
    std::regex expression;
    std::string replacement;
  };

  const Rule* rule_for(const std::string& name) const {
    const auto rule = std::ranges::find_if(
        rules_, [&](const Rule& each) { return std::regex_match(name, each.expression); });
    return rule == rules_.end() ? nullptr : &*rule;
  }

  std::vector<Rule> rules_;
};

class Taking {
 public:
  Taking(const WeightsRecipe& recipe, const torch::nn::Module& module)
      : recipe_(recipe), rename_(recipe.rename) {
    for (const auto& item : module.named_parameters()) tensors_.emplace(item.key(), item.value());
    for (const auto& item : module.named_buffers()) tensors_.emplace(item.key(), item.value());
    const Network* const network = as_network(module);
    if (network == nullptr) return;
    for (const auto& adapter : network->adapters())
      adapters_.insert({adapter.second->a.unsafeGetTensorImpl(), adapter.second->b.unsafeGetTensorImpl()});
  }

  // Compares names and shapes before anything is read.
  WeightsTaken compare(const WeightsFile& file) {
    const std::vector<TensorEntry> entries = file.list();
    check_skip(entries);
    std::set<const void*> taken, reshaped;
    for (const TensorEntry& entry : entries) note(entry, taken, reshaped);
    result_.idle_rules = rename_.idle(entries);
    for (const auto& [name, tensor] : tensors_) {
      const void* const id = tensor.unsafeGetTensorImpl();
      if (taken.contains(id) || reshaped.contains(id)) continue;  // under another of its names, too
      if (adapters_.contains(id)) continue;  // of this run: files of base models have none
      (matches_any(name, recipe_.skip) ? result_.skipped : result_.missing).push_back(name);
    }
    return result_;
  }

  // Returns the tensor into which the one of the file is read; undefined where that is not wanted. One that
  // the model has under another name, too, is read beside it, to be compared.
  torch::Tensor target(const TensorEntry& entry) {
    const std::string name = rename_(entry.name);
    const auto found = tensors_.find(name);
    const bool wanted =
        found != tensors_.end() && !matches_any(name, recipe_.skip) && found->second.sizes() == entry.shape;
    if (!wanted) return {};
    const torch::Tensor tensor = found->second.detach();
    const auto [first, is_new] = filled_.try_emplace(found->second.unsafeGetTensorImpl(), entry.name);
    if (is_new) return tensor;
    return copies_.emplace_back(first->second, entry.name, tensor, torch::empty_like(tensor)).beside;
  }

  // A weight that the model has under several names is one, and so are its values.
  void check_copies() const {
    for (const Copy& copy : copies_) {
      if (copy.tensor.equal(copy.beside)) continue;
      throw Error(ExitCode::kBadData, *recipe_.file,
                  cat("has other numbers in ", quote(copy.name), " than in ", quote(copy.first),
                      ", which are one weight of this model"),
                  "make the model with two weights; or name the one that is not to be taken: "
                  "model.weights.skip");
    }
  }

 private:
  // A head of another task is in the file alone, one that is drawn anew in both.
  void check_skip(const std::vector<TensorEntry>& entries) const {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : tensors_) names.push_back(name);
    for (const TensorEntry& entry : entries) {
      if (const std::string name = rename_(entry.name); !tensors_.contains(name)) names.push_back(name);
    }
    check_patterns("model.weights.skip", recipe_.skip, names, "name of the model or of the file");
  }

  void note(const TensorEntry& entry, std::set<const void*>& taken, std::set<const void*>& reshaped) {
    const std::string name = rename_(entry.name);
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) {
      (matches_any(name, recipe_.skip) ? result_.skipped : result_.left).push_back(name);
      return;
    }
    if (matches_any(name, recipe_.skip)) return;
    const auto [source, is_new] = sources_.try_emplace(name, entry.name);
    if (!is_new) {
      throw Error(ExitCode::kBadRecipe, "model.weights.rename",
                  cat("makes ", quote(name), " of two tensors of ", *recipe_.file, ", ",
                      quote(source->second), " and ", quote(entry.name)),
                  "write an expression that matches one of them");
    }
    check_type_is_read(*recipe_.file, entry);
    const torch::Tensor& tensor = found->second;
    if (tensor.is_floating_point() && !at::isFloatingType(entry.dtype)) {
      throw Error(
          ExitCode::kBadData, *recipe_.file,
          cat("has whole numbers (", c10::toString(entry.dtype), ") in ", quote(entry.name),
              ", where the model has ", c10::toString(tensor.scalar_type())),
          "weights of few bits from another program mean nothing without its scales: take the model's in "
          "float32, float16 or bfloat16");
    }
    if (tensor.sizes() == entry.shape) {
      taken.insert(tensor.unsafeGetTensorImpl());
      result_.taken.push_back(name);
    } else {
      reshaped.insert(tensor.unsafeGetTensorImpl());
      result_.reshaped.push_back(cat(name, " ", c10::IntArrayRef(entry.shape), " → ", tensor.sizes()));
    }
  }

  struct Copy {
    std::string first, name;  // in the file
    torch::Tensor tensor, beside;
  };

  const WeightsRecipe& recipe_;
  Renaming rename_;
  std::map<std::string, torch::Tensor> tensors_;
  std::map<std::string, std::string> sources_;  // of the model's tensors, in the file
  std::map<const void*, std::string> filled_;   // tensors, and what in the file they are read from
  std::vector<Copy> copies_;
  std::set<const void*> adapters_;
  WeightsTaken result_;
};

void check_match(const WeightsRecipe& recipe, const WeightsTaken& weights) {
  const bool missing = !weights.missing.empty() && recipe.missing == Unmatched::kFail;
  const bool reshaped = !weights.reshaped.empty() && recipe.shapes == Unmatched::kFail;
  if (weights.taken.empty() && !missing && !reshaped && weights.left.empty()) {
    throw Error(ExitCode::kBadData, *recipe.file, "holds no tensor that this recipe's model takes",
                "leave model.weights out to begin with drawn weights");
  }
  if (!missing && !reshaped && weights.left.empty()) return;
  std::string text = "does not hold the tensors of this recipe's model";
  if (missing) text += "\n  not in the file: " + some_of(weights.missing);
  if (!weights.left.empty()) text += "\n  only in the file: " + some_of(weights.left);
  if (reshaped) text += "\n  of another shape: " + some_of(weights.reshaped);
  if (!weights.idle_rules.empty()) {
    text += cat("\n  rules that rename nothing, as an expression is one of the whole name: ",
                some_of(weights.idle_rules));
  }
  if (std::ranges::any_of(weights.left, is_adapter_tensor)) {
    throw Error(
        ExitCode::kBadData, *recipe.file, text,
        "it holds adapters: give the recipe the model.lora that they were trained with, or name a file "
        "that autotrain export has merged them into");
  }
  if (std::ranges::any_of(weights.left, looks_compressed)) {
    throw Error(ExitCode::kBadData, *recipe.file, text,
                "names as those are what autotrain compress writes, and the metadata by which its files are "
                "known are not there: an older one, or another program's copy; write it again");
  }
  throw Error(
      ExitCode::kBadData, *recipe.file, text,
      "model.weights.skip names what is not to be taken, model.weights.rename turns names of the file "
      "into the model's; missing: keep and shapes: keep draw the rest");
}

}  // namespace

WeightsTaken take_weights(const WeightsRecipe& recipe, const torch::nn::Module& module) {
  const WeightsFile file(*recipe.file);
  Taking taking(recipe, module);
  WeightsTaken result = taking.compare(file);
  check_match(recipe, result);
  file.read_some([&](const TensorEntry& entry) { return taking.target(entry); });
  check_finite_parameters(module, *recipe.file);
  taking.check_copies();
  return result;
}

std::string describe(const WeightsTaken& weights) {
  std::string text = cat("took ", weights.taken.size(), " tensors");
  const auto add = [&](const char* what, const std::vector<std::string>& names) {
    if (!names.empty()) text += cat("; ", what, ": ", some_of(names));
  };
  add("not taken, as asked", weights.skipped);
  add("not in the file", weights.missing);
  add("of another shape there", weights.reshaped);
  add("rules that rename nothing", weights.idle_rules);
  return text;
}

std::vector<torch::nn::Module*> freeze_parameters(const std::function<bool(const NamedTensor&)>& freezes,
                                                  torch::nn::Module& module) {
  for (const auto& item : module.named_parameters()) {
    if (freezes({item.key(), item.value()})) item.value().set_requires_grad(false);
  }
  const auto learns = [](const torch::Tensor& parameter) { return parameter.requires_grad(); };
  if (std::ranges::none_of(module.parameters(), learns))
    throw Error(ExitCode::kBadRecipe, "model.freeze", "leaves no parameter to learn", "freeze fewer");
  std::vector<torch::nn::Module*> frozen;
  for (const auto& part : module.modules(/*include_self=*/false)) {
    const std::vector<torch::Tensor> own = part->parameters(/*recurse=*/false);
    if (!own.empty() && std::ranges::none_of(own, learns)) frozen.push_back(part.get());
  }
  return frozen;
}

}  // namespace autotrain
