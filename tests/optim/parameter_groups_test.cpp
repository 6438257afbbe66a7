#include "optim/parameter_groups.h"

#include "support/optimizers.h"
#include "support/support.h"

namespace autotrain {
namespace {

std::vector<NamedTensor> named_tensors() {
  const auto tensor = [](at::IntArrayRef shape) {
    torch::manual_seed(shape[0]);
    return torch::randn(shape).requires_grad_();
  };
  return {{"backbone.0.weight", tensor({8, 5})},
          {"backbone.0.bias", tensor({8})},
          {"backbone.1.weight", tensor({21, 8})},
          {"head.weight", tensor({3, 21})},
          {"head.bias", tensor({3})}};
}

OptimizerRecipe recipe_with(std::vector<ParameterGroupRecipe> groups) {
  OptimizerRecipe recipe;
  recipe.weight_decay = 0.1;
  recipe.groups = std::move(groups);
  return recipe;
}

// Three updates of all optimizers with the same gradients.
void apply_all(const std::vector<std::pair<Optimizer*, Optimizer::Update>>& optimizers,
               const std::vector<NamedTensor>& learned) {
  for (int64_t step = 0; step < 3; ++step) {
    torch::manual_seed(step);
    for (const NamedTensor& p : learned) p.tensor.mutable_grad() = torch::randn_like(p.tensor);
    for (const auto& [optimizer, update] : optimizers) {
      optimizer->apply(update);
    }
  }
}

TEST(ParameterGroups, AParameterBelongsToTheFirstThatMatches) {
  const auto groups = parameter_groups(recipe_with({{.match = {"*.bias", "head.*"}, .weight_decay = 0},
                                                    {.match = {"backbone.*"}, .lr_factor = 0.1}}),
                                       named_tensors());
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_EQ(groups[0].parameters, (std::vector<size_t>{1, 3, 4}));
  EXPECT_EQ(groups[0].weight_decay, 0);
  EXPECT_EQ(groups[1].parameters, (std::vector<size_t>{0, 2}));
  EXPECT_EQ(groups[1].weight_decay, 0.1) << "the optimizer's";
  EXPECT_TRUE(groups[2].parameters.empty());
  const std::string text = describe(groups, named_tensors());
  EXPECT_EQ(
      text,
      "*.bias, head.*: 3 tensors with 74 weights; backbone.*: 2 tensors with 208 weights, learning rate × "
      "0.1, decay 0.1");
}

TEST(ParameterGroups, APatternThatChangesNothingIsAnErrorThatNamesWhatThereIs) {
  const auto refuse = [](std::vector<ParameterGroupRecipe> groups) {
    return test::expect_error(ExitCode::kBadRecipe,
                              [&] { parameter_groups(recipe_with(std::move(groups)), named_tensors()); });
  };
  const Error slip = refuse({{.match = {"head.*"}}, {.match = {"backbone.0.wieght"}}});
  EXPECT_EQ(slip.where(), "optimizer.groups[1].match");
  EXPECT_TRUE(test::holds(slip.what(), "did you mean \"backbone.0.weight\""));
  EXPECT_TRUE(test::holds(refuse({{.match = {"encoder.*"}}}).what(), "head.bias"));
  const Error shadowed = refuse({{.match = {"*"}}, {.match = {"head.*"}}});
  EXPECT_EQ(shadowed.where(), "optimizer.groups[1].match");
  EXPECT_TRUE(test::holds(shadowed.what(), "groups before it"));
}

TEST(ParameterGroups, OneThatWaitsHasNoTurnButInTrials) {
  OptimizerRecipe recipe = recipe_with({{.match = {"head.*"}, .every = 3}});
  recipe.algorithm = {"sgd", {}};
  const auto optimizer = make_optimizer(recipe, {named_tensors()});
  for (int64_t update = 1; update <= 7; ++update) {
    optimizer->begin_update({.update = update});
    for (size_t i = 0; i < 5; ++i) EXPECT_EQ(optimizer->has_turn(i), i < 3 || update % 3 == 0) << update;
  }
  optimizer->begin_update({.update = 1, .trial = true});
  EXPECT_TRUE(optimizer->has_turn(4));
  EXPECT_TRUE(test::holds(describe(optimizer->groups(), optimizer->parameters()), "in one of 3 updates"));
}

TEST(ParameterGroups, TurnsThatLeaveNothingToLearnOrFalsifyCountsAreRefused) {
  OptimizerRecipe recipe = recipe_with({{.match = {"head.*"}, .every = 3}, {.match = {"*"}, .every = 2}});
  const auto refuse = [&] {
    return test::expect_error(ExitCode::kBadRecipe, [&] { parameter_groups(recipe, named_tensors()); });
  };
  EXPECT_TRUE(test::holds(refuse().what(), "leave nothing that learns in update 1"));
  recipe.groups.pop_back();
  for (const char* const name : {"nadamw", "lamb"}) {
    recipe.algorithm = {name, {}};
    const Error error = refuse();
    EXPECT_EQ(error.where(), "optimizer.groups[0].every");
    EXPECT_TRUE(test::holds(error.what(), "one count of updates for all parameters")) << error.what();
  }
  recipe.algorithm = {"adamw", {}};
  EXPECT_EQ(parameter_groups(recipe, named_tensors()).size(), 2u);
}

class EveryOptimizer : public testing::TestWithParam<std::string> {
 protected:
  OptimizerRecipe recipe(std::vector<ParameterGroupRecipe> groups) const {
    OptimizerRecipe r = recipe_with(std::move(groups));
    r.algorithm = {GetParam(), {}};
    return r;
  }
};

// A group of its own is an optimizer of its own.
TEST_P(EveryOptimizer, GroupsAreUpdatedAsByOptimizersOfTheirOwn) {
  const auto together = named_tensors(), apart = named_tensors();
  const auto one = make_optimizer(
      recipe({{.match = {"backbone.*"}, .lr_factor = 0.25, .weight_decay = 0.5, .decay_all = true}}),
      {together});
  OptimizerRecipe backbone = recipe({});
  backbone.weight_decay = 0.5;
  backbone.decay_all = true;
  const auto first = make_optimizer(backbone, {{apart[0], apart[1], apart[2]}});
  const auto second = make_optimizer(recipe({}), {{apart[3], apart[4]}});
  apply_all({{one.get(), test::update_with(0.02)}}, together);
  apply_all({{first.get(), test::update_with(0.005)}, {second.get(), test::update_with(0.02)}}, apart);
  for (size_t i = 0; i < together.size(); ++i)
    EXPECT_TRUE(together[i].tensor.equal(apart[i].tensor)) << together[i].name;
}

TEST_P(EveryOptimizer, AGroupThatChangesNothingChangesNoBit) {
  const auto grouped = named_tensors(), plain = named_tensors();
  const auto one = make_optimizer(recipe({{.match = {"*.1.*", "head.bias"}}}), {grouped});
  const auto other = make_optimizer(recipe({}), {plain});
  apply_all({{one.get(), test::update_with(0.02)}}, grouped);
  apply_all({{other.get(), test::update_with(0.02)}}, plain);
  for (size_t i = 0; i < plain.size(); ++i)
    EXPECT_TRUE(plain[i].tensor.equal(grouped[i].tensor)) << plain[i].name;
  EXPECT_EQ(one->state_bytes(), other->state_bytes());
}

TEST_P(EveryOptimizer, ARateOnTheDeviceIsMultipliedThere) {
  const auto host = named_tensors(), on_device = named_tensors();
  const auto groups = recipe({{.match = {"backbone.*"}, .lr_factor = 0.25}});
  const auto one = make_optimizer(groups, {host}), other = make_optimizer(groups, {on_device});
  apply_all({{one.get(), test::update_with(0.02)}}, host);
  Optimizer::Update update = test::update_with(1e9);
  update.lr_on_device = torch::full({}, 0.02, torch::kFloat64);
  apply_all({{other.get(), update}}, on_device);
  for (size_t i = 0; i < host.size(); ++i)
    EXPECT_TRUE(host[i].tensor.equal(on_device[i].tensor)) << host[i].name;
}

TEST_P(EveryOptimizer, RanksThatShareItOutComeToTheSameBits) {
  if (find_optimizer(GetParam()).whole_tensors) GTEST_SKIP() << "is not shared out";
  const auto groups =
      recipe({{.match = {"*.bias", "head.*"}, .lr_factor = 3, .weight_decay = 0.3, .decay_all = true}});
  const auto whole = named_tensors(), shared = named_tensors();
  const auto alone = make_optimizer(groups, {whole});
  std::vector<std::unique_ptr<Optimizer>> parts;
  std::vector<std::pair<Optimizer*, Optimizer::Update>> all;
  for (int64_t rank = 0; rank < 4; ++rank) {
    parts.push_back(make_optimizer(groups, {shared, FlatLayout(shared, 4).pieces_of(rank)}));
    all.push_back({parts.back().get(), test::update_with(0.01)});
  }
  apply_all({{alone.get(), test::update_with(0.01)}}, whole);
  apply_all(all, shared);
  for (size_t i = 0; i < whole.size(); ++i)
    EXPECT_TRUE(whole[i].tensor.equal(shared[i].tensor)) << whole[i].name;
}

INSTANTIATE_TEST_SUITE_P(Optimizers, EveryOptimizer, testing::ValuesIn(test::optimizer_names()),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace autotrain
