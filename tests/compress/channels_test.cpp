#include "compress/channels.h"

#include <ATen/ATen.h>

#include <gtest/gtest.h>
#include "model/models.h"
#include "model/pruned.h"
#include "support/support.h"

namespace autotrain {
namespace {

struct Prunable {
  Choice choice;
  SampleShape shape;
};

std::vector<Prunable> prunable_models() {
  const SampleShape images{{3, 16, 20}, 10, 0}, tokens{{12}, 17, 17};
  return {{{"mlp", {{"depth", int64_t{3}}, {"width", int64_t{16}}}}, images},
          {{"cnn", {{"width", int64_t{8}}, {"hidden", int64_t{12}}}}, images},
          {{"resnet18", {{"stem", std::string("small")}}}, images},
          {{"resnet50", {{"stem", std::string("small")}}}, images},
          {{"transformer", {{"width", int64_t{16}}, {"layers", int64_t{2}}}}, tokens}};
}

std::vector<NamedTensor> tensors_in(const torch::nn::Module& module) {
  std::vector<NamedTensor> tensors;
  for (const auto& item : module.named_parameters()) tensors.push_back({item.key(), item.value().detach()});
  for (const auto& item : module.named_buffers()) tensors.push_back({item.key(), item.value()});
  return tensors;
}

torch::Tensor some_inputs(const Prunable& model) {
  std::vector<int64_t> shape = {2};
  shape.insert(shape.end(), model.shape.input.begin(), model.shape.input.end());
  return model.shape.vocabulary > 0 ? torch::randint(model.shape.vocabulary, shape) : torch::randn(shape);
}

// Every other output of each producer says nothing: what is left of the model must compute the same.
void silence_half(const std::vector<ChannelGroup>& groups, const std::vector<NamedTensor>& tensors) {
  std::map<std::string, torch::Tensor> by_name;
  for (const NamedTensor& item : tensors) by_name[item.name] = item.tensor;
  for (const ChannelGroup& group : groups) {
    std::vector<std::string> parts = group.followers;
    parts.push_back(group.producer);
    for (const std::string& part : parts) {
      for (const char* const name : {".weight", ".bias"}) {
        if (by_name.contains(part + name)) by_name[part + name].slice(0, 1, std::nullopt, 2).zero_();
      }
    }
  }
}

TEST(Channels, OfWhichNobodyHearsAnythingCanGo) {
  const torch::NoGradGuard no_gradients;
  for (const Prunable& each : prunable_models()) {
    torch::manual_seed(2);
    const auto whole = make_model(each.choice, each.shape), smaller = make_model(each.choice, each.shape);
    whole->eval();
    smaller->eval();
    const auto groups = channel_groups(each.choice.name, tensors_in(*whole));
    silence_half(groups, tensors_in(*whole));
    CompressedWeights weights;
    for (const NamedTensor& item : without_channels(tensors_in(*whole), groups, 0.5)) {
      if (item.name.ends_with("..kept")) {
        weights.kept[item.name] = item.tensor;
        EXPECT_TRUE(item.tensor.remainder(2).eq(0).all().item<bool>()) << item.name;
      } else {
        weights.tensors.push_back(item);
      }
    }
    EXPECT_EQ(weights.kept.size(), groups.size());
    take_pruned_shapes(weights, *smaller);
    std::map<std::string, torch::Tensor> live;
    for (const NamedTensor& item : tensors_in(*smaller)) live[item.name] = item.tensor;
    int64_t before = 0, after = 0;
    for (const NamedTensor& item : tensors_in(*whole)) before += item.tensor.numel();
    for (const NamedTensor& item : weights.tensors) {
      live.at(item.name).copy_(item.tensor);
      after += item.tensor.numel();
    }
    EXPECT_LT(after, before) << each.choice.name;
    const torch::Tensor inputs = some_inputs(each), a = whole->forward(inputs), b = smaller->forward(inputs);
    EXPECT_LT((a - b).norm().item<double>(), 1e-4 * a.norm().item<double>()) << each.choice.name;
  }
}

TEST(Channels, TheWeakestGoAndOneAtLeastStays) {
  const torch::Tensor weight = torch::tensor({{1.0f, 1.0f}, {-5.0f, 0.0f}, {0.5f, 0.5f}, {0.0f, 3.0f}});
  const std::vector<NamedTensor> tensors = {{"hidden0.weight", weight},
                                            {"hidden0.bias", torch::arange(4)},
                                            {"output.weight", torch::randn({2, 4})}};
  const auto groups = channel_groups("mlp", tensors);
  const auto pruned = [&](const std::string& name, double share) {
    for (const NamedTensor& item : without_channels(tensors, groups, share)) {
      if (item.name == name) return item.tensor;
    }
    return torch::Tensor();
  };
  const torch::Tensor strongest = torch::tensor({1, 3}, torch::kInt64);
  EXPECT_TRUE(pruned("hidden0..kept", 0.5).equal(strongest));
  EXPECT_TRUE(pruned("output.weight", 0.5).equal(tensors[2].tensor.index_select(1, strongest)));
  EXPECT_EQ(pruned("hidden0.weight", 0.99).size(0), 1);
}

TEST(Channels, OfModelsThatAreNotKnownAreNone) {
  EXPECT_TRUE(channel_groups("exported", {{"hidden0.weight", torch::ones({2, 2})}}).empty());
}

// Heads whose values are zero give nothing, and weigh least.
TEST(Heads, OfWhichNobodyHearsAnythingCanGo) {
  const torch::NoGradGuard no_gradients;
  for (const int64_t kv_heads : {8, 4}) {
    const Prunable each{
        {"transformer",
         {{"width", int64_t{32}}, {"layers", int64_t{2}}, {"heads", int64_t{8}}, {"kv_heads", kv_heads}}},
        {{12}, 17, 17}};
    torch::manual_seed(2);
    const auto whole = make_model(each.choice, each.shape), smaller = make_model(each.choice, each.shape);
    whole->eval();
    smaller->eval();
    const int64_t served = 8 / kv_heads, size = 4;
    for (const NamedTensor& item : tensors_in(*whole)) {
      if (!item.name.ends_with("qkv.weight")) continue;
      const torch::Tensor queries = item.tensor.narrow(0, 0, 8 * size).view({kv_heads, served * size, -1}),
                          others = item.tensor.narrow(0, 8 * size, 2 * kv_heads * size)
                                       .view({2, kv_heads, size, -1});
      queries.slice(0, 1, std::nullopt, 2).zero_();
      others.slice(1, 1, std::nullopt, 2).zero_();
    }
    CompressedWeights weights;
    const auto layers = head_groups(tensors_in(*whole), 8, kv_heads);
    ASSERT_EQ(layers.size(), 2U);
    for (const NamedTensor& item : without_heads(tensors_in(*whole), layers, 0.5)) {
      if (item.name.ends_with("..kept"))
        weights.kept[item.name] = item.tensor;
      else
        weights.tensors.push_back(item);
    }
    take_pruned_shapes(weights, *smaller);
    for (const NamedTensor& item : tensors_in(*smaller)) {
      for (const NamedTensor& stored : weights.tensors) {
        if (stored.name == item.name) item.tensor.copy_(stored.tensor);
      }
    }
    EXPECT_EQ(smaller->named_parameters()["block1.qkv.weight"].size(0), (4 + kv_heads) * size);
    const torch::Tensor inputs = some_inputs(each), a = whole->forward(inputs), b = smaller->forward(inputs);
    EXPECT_LT((a - b).norm().item<double>(), 1e-4 * a.norm().item<double>()) << kv_heads;
  }
}

}  // namespace
}  // namespace autotrain
