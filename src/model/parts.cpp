#include "model/parts.h"

#include "base/text.h"

namespace autotrain {
namespace {

struct Part : torch::nn::Module {
  using torch::nn::Module::Module;
};

torch::nn::Module& part_of_type(torch::nn::Module& module, const std::string& name, const std::string& type) {
  const auto children = module.named_children();
  const auto* const known = children.find(name);
  return known != nullptr ? **known : *module.register_module(name, std::make_shared<Part>(type));
}

}  // namespace

torch::nn::Module& part_with(torch::nn::Module& module, const std::string& tensor) {
  const std::vector<std::string> words = split(tensor, '.');
  torch::nn::Module* part = &module;
  for (size_t i = 0; i + 1 < words.size(); ++i) part = &part_of_type(*part, words[i], "");
  return *part;
}

void make_part(torch::nn::Module& module, const std::string& path, const std::string& type) {
  part_of_type(part_with(module, path), split(path, '.').back(), type);
}

}  // namespace autotrain
