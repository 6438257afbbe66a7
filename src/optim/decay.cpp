#include "optim/decay.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <unordered_map>

#include "base/text.h"

namespace autotrain {
namespace {

bool has_any(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::ranges::any_of(
      words, [&](std::string_view word) { return text.find(word) != std::string_view::npos; });
}

// "ln", "ln_1", "bn2", "final_norm", "LayerNorm"
bool is_named_as_norm(const std::string& part) {
  const std::string word = lower(part);
  if (has_any(word, {"norm"})) return true;
  for (const std::string_view prefix : {"ln", "bn", "gn", "rms"}) {
    if (!word.starts_with(prefix)) continue;
    const std::string_view rest = std::string_view(word).substr(prefix.size());
    if (rest.empty() || rest[0] == '_' || is_digit(rest[0])) return true;
  }
  return false;
}

// What owns a parameter.
enum class Owner { kNorm, kWeights, kOther, kUnknown };

// @param type as C++ or Python calls it; "" where nobody said.
Owner owner_of(const std::string& type, const std::string& own_name) {
  const std::string word = lower(type.substr(type.rfind(':') + 1));
  const bool norm = has_any(word, {"norm"});
  const bool weights = has_any(word, {"linear", "conv", "embedding", "rnn", "lstm", "gru", "attention"});
  if (norm != weights) return norm ? Owner::kNorm : Owner::kWeights;
  if (!word.empty()) return Owner::kOther;
  return is_named_as_norm(own_name) ? Owner::kNorm : Owner::kUnknown;
}

std::string without_last(const std::string& name) {
  const size_t dot = name.rfind('.');
  return dot == std::string::npos ? "" : name.substr(0, dot);
}

}  // namespace

bool decayed_by_shape(const torch::Tensor& parameter) {
  return std::ranges::count_if(parameter.sizes(), [](int64_t size) { return size > 1; }) >= 2;
}

std::vector<bool> decayed_by_rule(const torch::nn::Module& module,
                                  const std::vector<NamedTensor>& parameters) {
  std::unordered_map<std::string, std::string> types;  // the module itself may be a program of any kind
  for (const auto& part : module.named_modules("", /*include_self=*/false))
    types[part.key()] = part.value()->name();
  std::vector<bool> decayed;
  for (const NamedTensor& parameter : parameters) {
    const std::string path = without_last(parameter.name);
    const std::string last = parameter.name.substr(path.empty() ? 0 : path.size() + 1);
    const Owner owner = owner_of(types[path], path.substr(path.rfind('.') + 1));
    const bool weight = last.find("weight") != std::string::npos;
    const bool by_name = owner == Owner::kWeights || (owner == Owner::kUnknown && weight);
    decayed.push_back(owner != Owner::kNorm && (by_name && last.find("bias") == std::string::npos
                                                    ? parameter.tensor.dim() >= 2
                                                    : decayed_by_shape(parameter.tensor)));
  }
  return decayed;
}

}  // namespace autotrain
