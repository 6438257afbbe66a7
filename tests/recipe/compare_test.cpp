#include "recipe/compare.h"

#include "support/catalog.h"
#include "support/support.h"

namespace autotrain {
namespace {

TEST(RecipeCompare, NamesEachKeyThatDiffersAndWhetherItIsLearned) {
  const Catalog rows = test::small_catalog();
  Recipe a, b;
  b.optimizer.lr = 0.5;
  b.execution.micro_batch = 32;
  b.model.parameters["width"] = int64_t{64};
  const auto differences = differing_keys(a, b, rows);
  ASSERT_EQ(differences.size(), 3u);
  EXPECT_EQ(differences[0].path, "execution.micro_batch");
  EXPECT_FALSE(decides_learning(differences[0].decides));
  EXPECT_EQ(differences[1].path, "model.width");
  EXPECT_EQ(differences[1].before, "32");
  EXPECT_EQ(differences[1].after, "64");
  EXPECT_TRUE(decides_learning(differences[1].decides));
  EXPECT_EQ(differences[2].path, "optimizer.lr");
}

TEST(RecipeCompare, BudgetsOfDevicesAreOneKey) {
  const Catalog rows = test::small_catalog();
  Recipe a, b;
  a.execution.memory.budget = *Budget::parse("1GiB");
  b.execution.memory.budget.cpu = Budget::parse("1GiB");
  b.execution.memory.budget.cuda = Budget::parse("50%");
  EXPECT_EQ(describe(differing_keys(a, b, rows)), "execution.memory.budget: 1GiB → {cpu: 1GiB, cuda: 50%}");
}

TEST(RecipeCompare, ADefaultWrittenOutIsNoDifference) {
  const Catalog rows = test::small_catalog();
  Recipe a, b;
  b.model.parameters["width"] = int64_t{32};
  EXPECT_TRUE(differing_keys(a, b, rows).empty());
}

TEST(RecipeCompare, AnotherRowShowsTheKeysOfBoth) {
  const Catalog rows = test::small_catalog();
  Recipe a, b;
  b.model.name = "mlp";
  const std::string text = describe(differing_keys(a, b, rows));
  EXPECT_TRUE(test::holds(text, "model.name: cnn → mlp"));
  EXPECT_TRUE(test::holds(text, "model.depth: absent → 2"));
}

TEST(RecipeCompare, KeysThatHaveTheirRowsDefaultAreNotChanged) {
  const Catalog rows = test::small_catalog();
  Recipe recipe;
  EXPECT_TRUE(changed_keys(recipe, rows).empty());
  recipe.model = {"mlp", {{"depth", int64_t{2}}}};
  recipe.optimizer.lr = 0.5;
  EXPECT_EQ(describe(changed_keys(recipe, rows)), "model.name: cnn → mlp\n  optimizer.lr: 0.001 → 0.5");
  recipe.model.parameters["depth"] = int64_t{3};
  EXPECT_TRUE(test::holds(describe(changed_keys(recipe, rows)), "model.depth: 2 → 3"));
}

TEST(RecipeCompare, GroupsOfParametersAreComparedKeyByKey) {
  const Catalog rows = test::small_catalog();
  Recipe one, two;
  one.optimizer.groups = {{.match = {"a.*"}, .lr_factor = 0.5}};
  two.optimizer.groups = {{.match = {"a.*"}, .lr_factor = 0.25}};
  const auto differences = differing_keys(one, two, rows);
  EXPECT_EQ(describe(differences), "optimizer.groups[0].lr_factor: 0.5 → 0.25");
  EXPECT_EQ(differences[0].decides, Decides::kLearning);
  EXPECT_TRUE(test::holds(describe(differing_keys(Recipe(), one, rows)),
                          "optimizer.groups[0].match: absent → [\"a.*\"]"));
  one.data.validation = Choice{one.data.train.name, {}};  // of a section behind them
  EXPECT_TRUE(test::holds(describe(changed_keys(one, rows)), "data.validation.dataset: absent → "));
}

TEST(RecipeCompare, AnOptionalSectionThatIsGivenIsAChange) {
  const Catalog rows = test::small_catalog();
  Recipe recipe;
  recipe.data.validation = Choice{recipe.data.train.name, {}};
  EXPECT_EQ(describe(changed_keys(recipe, rows)),
            "data.validation.dataset: absent → " + recipe.data.train.name);
}

// Of two runs that differ in such a key one may end before the other, or learn other things.
TEST(RecipeCompare, WhatEarlyStoppingAndRollbacksGoByIsLearned) {
  const Catalog rows = test::small_catalog();
  const auto decides = [&](const Recipe& base, const auto& change) {
    Recipe changed = base;
    change(changed);
    const std::vector<KeyDifference> differences = differing_keys(base, changed, rows);
    return differences.size() == 1 && decides_learning(differences[0].decides);
  };
  const auto monitor = [](Recipe& r) { r.evaluation.monitor = "accuracy"; };
  const auto evaluations = [](Recipe& r) { r.evaluation.every = *Interval::parse("7 updates"); };
  const auto checkpoints = [](Recipe& r) { r.checkpoint.every = *Interval::parse("7 updates"); };
  const Recipe plain;
  EXPECT_FALSE(decides(plain, monitor));
  EXPECT_FALSE(decides(plain, evaluations));
  EXPECT_FALSE(decides(plain, checkpoints));
  Recipe patient;
  patient.stop.patience = 3;
  EXPECT_TRUE(decides(patient, monitor));
  EXPECT_TRUE(decides(patient, evaluations));
  Recipe careful;
  careful.divergence.policy = DivergencePolicy::kRollback;
  EXPECT_TRUE(decides(careful, checkpoints));
}

}  // namespace
}  // namespace autotrain
