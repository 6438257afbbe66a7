#include "model/parts.h"

#include "base/text.h"

namespace autotrain {
namespace {

struct Part : torch::nn::Module {};

}  // namespace

torch::nn::Module& part_with(torch::nn::Module& module, const std::string& tensor) {
  const std::vector<std::string> words = split(tensor, '.');
  torch::nn::Module* part = &module;
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    const auto children = part->named_children();
    const auto* const known = children.find(words[i]);
    part = known != nullptr ? known->get() : part->register_module(words[i], std::make_shared<Part>()).get();
  }
  return *part;
}

}  // namespace autotrain
