#include "optim/decay.h"

#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include "support/support.h"

namespace autotrain {
namespace {

struct Scale : torch::nn::Module {
  Scale() {
    register_parameter("gamma", torch::ones({16, 1, 1}));
    register_parameter("rms", torch::ones({1, 16}));
    register_parameter("matrix", torch::ones({4, 16}));
  }
};

struct Whole : torch::nn::Module {
  Whole() {
    register_module("head", torch::nn::Linear(16, 1));
    register_module("kernel", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 1, 3)));
    register_module("flat", torch::nn::LayerNorm(torch::nn::LayerNormOptions({8, 8})));
    register_module("scale", std::make_shared<Scale>());
    const auto ln =
        register_module("ln_1", std::make_shared<torch::nn::Module>(""));  // its kind is not known
    ln->register_parameter("weight", torch::ones({8, 8}));
    const auto fc = register_module("fc", std::make_shared<torch::nn::Module>(""));
    fc->register_parameter("weight", torch::ones({1, 8}));
    fc->register_parameter("bias", torch::ones({1, 8}));
  }
};

TEST(DecayedByRule, AreWeightsOfLayersAndNothingOfNormalisation) {
  const Whole module;
  std::vector<NamedTensor> parameters;
  for (const auto& item : module.named_parameters()) parameters.push_back({item.key(), item.value()});
  const std::vector<bool> decayed = decayed_by_rule(module, parameters);
  std::map<std::string, bool> by_name;
  for (size_t i = 0; i < parameters.size(); ++i) by_name[parameters[i].name] = decayed[i];
  const std::map<std::string, bool> wanted = {
      {"head.weight", true},  {"head.bias", false},   {"kernel.weight", true}, {"kernel.bias", false},
      {"flat.weight", false}, {"flat.bias", false},   {"scale.gamma", false},  {"scale.rms", false},
      {"scale.matrix", true}, {"ln_1.weight", false}, {"fc.weight", true},     {"fc.bias", false}};
  EXPECT_EQ(by_name, wanted);
}

}  // namespace
}  // namespace autotrain
