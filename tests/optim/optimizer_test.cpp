#include "optim/optimizer.h"

#include <cmath>
#include <set>

#include "support/fixtures.h"
#include "support/optimizers.h"
#include "support/support.h"

namespace autotrain {
namespace {

using test::scalar;
using test::value_of;

torch::Tensor start(at::IntArrayRef shape, double offset) {
  torch::Tensor values = torch::empty({c10::multiply_integers(shape)});
  for (int64_t i = 0; i < values.numel(); ++i) {
    values[i] = static_cast<float>(std::sin(0.7 * static_cast<double>(i) + offset));
  }
  return values.reshape(shape).requires_grad_();
}

torch::Tensor gradient(const torch::Tensor& parameter, int64_t step) {
  torch::Tensor wave = torch::empty({parameter.numel()});
  for (int64_t i = 0; i < wave.numel(); ++i) {
    wave[i] = static_cast<float>(std::cos(0.3 * static_cast<double>(step) + 0.9 * static_cast<double>(i)));
  }
  return wave.reshape(parameter.sizes()) + 0.5 * parameter.detach();
}

OptimizerRecipe recipe_of(const nlohmann::json& c) {
  OptimizerRecipe recipe;
  recipe.algorithm.name = c.at("name");
  for (const auto& [key, value] : c.at("keys").items()) recipe.algorithm.parameters[key] = value_of(value);
  recipe.weight_decay = c.at("weight_decay");
  return recipe;
}

TEST(Optimizer, CountsFollowTheirParametersIntoAnotherOrder) {
  const torch::Tensor a = start({3, 4}, 0), b = start({4}, 1), c = start({2}, 2);
  OptimizerRecipe recipe;
  recipe.algorithm.name = "adam";
  const auto first = make_optimizer(recipe, {{{"a", a}, {"b", b}, {"c", c}}});
  a.mutable_grad() = gradient(a, 1);
  first->apply({.lr = 0.1, .grad_scale = scalar(1), .found_inf = scalar(0)});
  c.mutable_grad() = gradient(c, 1);
  first->apply({.lr = 0.1, .grad_scale = scalar(1), .found_inf = scalar(0)});
  const auto second = make_optimizer(recipe, {{{"c", c}, {"a", a}, {"b", b}}});
  std::vector<std::string> saved;
  for (const NamedTensor& from : first->state()) {
    saved.push_back(from.name);
    for (const NamedTensor& to : second->state())
      if (to.name == from.name) to.tensor.copy_(from.tensor);
  }
  second->reorder(saved);
  EXPECT_EQ(second->state().front().name, "step");
  EXPECT_TRUE(second->state().front().tensor.equal(torch::tensor({1.f, 2.f, 0.f})));
}

// The kernel divides by the scale; a scale other than 1 must change nothing.
class OptimizerScale : public testing::TestWithParam<float> {};

TEST_P(OptimizerScale, FollowsPythonOverAHundredSteps) {
  for (const auto& c : test::fixture("optimizers.json")) {
    const torch::Tensor matrix = start({3, 4}, 0), bias = start({4}, 1);
    const auto optimizer = make_optimizer(recipe_of(c), {{{"matrix", matrix}, {"bias", bias}}});
    auto row = c.at("rows").begin();
    // Plain kernels round after every operation, some five times a step: 100 × 5 × 2⁻²⁴ at worst is 3e-5.
    const bool fused = std::set<std::string>{"sgd", "adam", "adamw"}.contains(c.at("name"));
    const double tolerance = fused ? 1e-6 : 5e-6;
    for (int64_t step = 0; step < 100; ++step) {
      for (const torch::Tensor& p : {matrix, bias}) p.mutable_grad() = gradient(p, step) * GetParam();
      optimizer->apply({.lr = c.at("lr"), .grad_scale = scalar(GetParam()), .found_inf = scalar(0)});
      if (row == c.at("rows").end() || row->at("step") != step + 1) continue;
      for (const auto& [name, live] : {std::pair{"matrix", matrix}, {"bias", bias}}) {
        const auto expected = row->at(name).get<std::vector<float>>();
        const torch::Tensor wanted = torch::tensor(expected).reshape(live.sizes());
        EXPECT_LE((live - wanted).abs().max().item<float>(), tolerance)
            << c.at("name") << " step " << step + 1;
      }
      ++row;
    }
    EXPECT_EQ(row, c.at("rows").end());
  }
}

INSTANTIATE_TEST_SUITE_P(Scales, OptimizerScale, testing::Values(1.0f, 1024.0f));

TEST(Optimizer, ASkippedUpdateMovesNothing) {
  for (const OptimizerRow& row : optimizer_table()) {
    OptimizerRecipe recipe;
    recipe.algorithm = {row.spec.name, {}};
    if (row.spec.name == "sgd") recipe.algorithm.parameters["momentum"] = 0.9;
    const torch::Tensor parameter = start({3, 4}, 0);
    const auto optimizer = make_optimizer(recipe, {{{"p", parameter}}});
    parameter.mutable_grad() = gradient(parameter, 0);
    optimizer->apply({.lr = 0.1, .grad_scale = scalar(1), .found_inf = scalar(0)});
    std::vector<torch::Tensor> before = {parameter.detach().clone()};
    for (const NamedTensor& state : optimizer->state()) before.push_back(state.tensor.clone());
    parameter.mutable_grad() = torch::full({3, 4}, INFINITY);
    optimizer->apply({.lr = 0.1, .grad_scale = scalar(1), .found_inf = scalar(1)});
    EXPECT_TRUE(parameter.equal(before[0])) << row.spec.name;
    for (size_t i = 0; i < optimizer->state().size(); ++i) {
      EXPECT_TRUE(optimizer->state()[i].tensor.equal(before[i + 1])) << optimizer->state()[i].name;
    }
  }
}

TEST(Optimizer, BiasesAndNormsAreDecayedOnlyWhenAsked) {
  for (const bool all : {false, true}) {
    OptimizerRecipe recipe;
    recipe.algorithm = {"sgd", {}};
    recipe.weight_decay = 0.5;
    recipe.decay_all = all;
    const torch::Tensor matrix = torch::ones({2, 2}).requires_grad_(),
                        bias = torch::ones({2}).requires_grad_();
    const auto optimizer = make_optimizer(recipe, {{{"matrix", matrix}, {"bias", bias}}});
    for (const torch::Tensor& p : {matrix, bias}) p.mutable_grad() = torch::zeros_like(p);
    optimizer->apply({.lr = 1.0, .grad_scale = scalar(1), .found_inf = scalar(0)});
    EXPECT_EQ(matrix[0][0].item<float>(), 0.5f);
    EXPECT_EQ(bias[0].item<float>(), all ? 0.5f : 1.0f);
  }
}

// As PyTorch's: the bias correction of a parameter is that of the updates that it had.
TEST(Optimizer, AdamCountsForEachParameter) {
  for (const std::string name : {"adam", "adamw"}) {
    OptimizerRecipe recipe;
    recipe.algorithm = {name, {}};
    const torch::Tensor always = start({3, 4}, 0), sometimes = start({4}, 1);
    const torch::Tensor alone = sometimes.detach().clone().requires_grad_();
    const auto both = make_optimizer(recipe, {{{"always", always}, {"sometimes", sometimes}}});
    const auto one = make_optimizer(recipe, {{{"alone", alone}}});
    for (int64_t step = 0; step < 12; ++step) {
      const bool turn = step % 3 == 2, skipped = step == 8;
      always.mutable_grad() = gradient(always, step);
      sometimes.mutable_grad() = turn ? gradient(sometimes, step) : torch::Tensor();
      alone.mutable_grad() = turn ? gradient(alone, step) : torch::Tensor();
      both->apply({.lr = 0.1, .grad_scale = scalar(1), .found_inf = scalar(skipped ? 1.0f : 0.0f)});
      if (turn) one->apply({.lr = 0.1, .grad_scale = scalar(1), .found_inf = scalar(skipped ? 1.0f : 0.0f)});
      EXPECT_TRUE(torch::equal(sometimes, alone)) << name << ' ' << step;
    }
    EXPECT_TRUE(torch::equal(both->scalars()[0].tensor, torch::tensor({11.0f, 3.0f})));
  }
}

TEST(Optimizer, ParametersWithoutGradientsAreLeftAlone) {
  OptimizerRecipe recipe;
  recipe.weight_decay = 0.5;
  const torch::Tensor used = torch::ones({2, 2}).requires_grad_(),
                      unused = torch::ones({2, 2}).requires_grad_();
  const auto optimizer = make_optimizer(recipe, {{{"used", used}, {"unused", unused}}});
  used.mutable_grad() = torch::ones_like(used);
  optimizer->apply({.lr = 0.1, .grad_scale = scalar(1), .found_inf = scalar(0)});
  EXPECT_FALSE(used.equal(torch::ones({2, 2})));
  EXPECT_TRUE(unused.equal(torch::ones({2, 2})));
}

TEST(Optimizer, AllStateExistsFromTheStart) {
  const torch::Tensor parameter = start({3, 4}, 0);
  const auto optimizer = make_optimizer({}, {{{"p", parameter}}});
  EXPECT_EQ(optimizer->state_bytes(), 2 * 12 * 4 + 4);
  EXPECT_EQ(optimizer->state()[1].name, "exp_avg.p");
}

TEST(Optimizer, TiedParametersAreTrainedOnce) {
  struct Tied : torch::nn::Module {
    Tied() {
      const torch::Tensor weight = register_parameter("weight", torch::ones({2, 2}));
      register_parameter("alias", weight);
      register_parameter("frozen", torch::ones({1}), /*requires_grad=*/false);
    }
  };
  const auto parameters = trainable_parameters(Tied());
  ASSERT_EQ(parameters.size(), 1u);
  EXPECT_EQ(parameters[0].name, "weight");
}

// Whoever has which part: each element is updated by itself, in the same lanes of a vector.
TEST(Optimizer, PartsUpdatedApartAreTheWholeUpdatedAtOnce) {
  for (const auto& c : test::fixture("optimizers.json")) {
    if (find_optimizer(c.at("name")).whole_tensors) continue;
    for (const int64_t ranks : {2, 3, 8}) {
      const auto parameters = [] {
        torch::manual_seed(1);
        const torch::Tensor image = torch::randn({8, 5, 3, 3}).contiguous(torch::MemoryFormat::ChannelsLast);
        return std::vector<NamedTensor>{{"image", image.requires_grad_()},
                                        {"bias", torch::randn({37}).requires_grad_()},
                                        {"matrix", torch::randn({53, 29}).requires_grad_()}};
      };
      const std::vector<NamedTensor> whole = parameters(), shared = parameters();
      const auto alone = make_optimizer(recipe_of(c), {whole});
      std::vector<std::unique_ptr<Optimizer>> parts;
      for (int64_t rank = 0; rank < ranks; ++rank)
        parts.push_back(make_optimizer(recipe_of(c), {shared, FlatLayout(shared, ranks).pieces_of(rank)}));
      for (int64_t step = 0; step < 5; ++step) {
        for (const auto* const list : {&whole, &shared}) {
          torch::manual_seed(100 + step);
          for (const NamedTensor& p : *list) p.tensor.mutable_grad() = torch::randn_like(p.tensor);
        }
        const auto update = [&] {
          return Optimizer::Update{.lr = c.at("lr"), .grad_scale = scalar(3), .found_inf = scalar(0)};
        };
        alone->apply(update());
        for (const auto& part : parts) part->apply(update());
      }
      for (size_t i = 0; i < whole.size(); ++i)
        EXPECT_TRUE(whole[i].tensor.equal(shared[i].tensor))
            << c << " among " << ranks << ": " << whole[i].name;
      const auto bytes_of_elements = [](const Optimizer& optimizer) {
        int64_t bytes = optimizer.state_bytes();
        for (const NamedTensor& each : optimizer.scalars())
          bytes -= static_cast<int64_t>(each.tensor.nbytes());
        return bytes;
      };
      int64_t elements = 0;
      for (const auto& part : parts) elements += bytes_of_elements(*part);
      EXPECT_EQ(elements, bytes_of_elements(*alone));
    }
  }
}

}  // namespace
}  // namespace autotrain
