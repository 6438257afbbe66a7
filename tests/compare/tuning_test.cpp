#include "compare/tuning.h"

#include <cmath>
#include <set>
#include <tuple>

#include "base/text.h"
#include "support/support.h"

namespace autotrain {
namespace {

CompareOptions study_of(const std::vector<double>& rates) {
  CompareOptions study;
  for (size_t i = 0; i < rates.size(); ++i) {
    Recipe recipe;
    recipe.name = "r" + std::to_string(i);
    recipe.optimizer.lr = rates[i];
    recipe.stop.updates = 1;
    study.recipes.push_back({recipe.name, recipe});
  }
  return study;
}

// A comparison in which a run comes to a loss that its rate alone decides; NaN: it failed.
auto comparing(const std::function<double(double lr)>& loss, int* calls, size_t* runs = nullptr) {
  return [=](const CompareOptions& options) {
    ++*calls;
    EXPECT_EQ(options.seeds, 1);
    EXPECT_EQ(options.folder.filename(), "tuning");
    Comparison found;
    found.terms.lower_is_better = true;
    std::set<std::string> labels;
    for (const NamedRecipe& named : options.recipes) {
      EXPECT_TRUE(labels.insert(named.label).second) << named.label;
      const double value = loss(named.recipe.optimizer.lr);
      found.recipes.push_back({.final = {.mean = value, .count = std::isfinite(value) ? 1 : 0, .runs = 1}});
    }
    if (runs != nullptr) *runs = options.recipes.size();
    return found;
  };
}

double distance(double lr, double best) {
  return std::abs(std::log(lr / best));
}

TEST(Tuning, GivesEachRecipeItsBestValueWhateverItBeganWith) {
  CompareOptions study = study_of({0.01, 0.03, 0.09});
  int calls = 0;
  tune(study, {.key = "optimizer.lr"}, comparing([](double lr) { return distance(lr, 0.03); }, &calls));
  EXPECT_EQ(calls, 1);
  for (const NamedRecipe& named : study.recipes) EXPECT_NEAR(named.recipe.optimizer.lr, 0.03, 1e-4);
  ASSERT_TRUE(study.tuned);
  for (const TunedRecipe& tuned : study.tuned->recipes) {
    EXPECT_EQ(tuned.tried.size(), 5);
    EXPECT_FALSE(tuned.at_edge);
  }
  EXPECT_EQ(study.tuned->recipes[0].tried[2].value, "0.01") << "its own value is tried as it is";
}

TEST(Tuning, GoesFurtherWhereTheBestIsAtTheEdgeAndSaysWhereItStaysThere) {
  for (const auto& [best, edge, tried] : {std::tuple{0.9 * 3, false, 7}, std::tuple{1e5, true, 7},
                                          std::tuple{1e-9, true, 7}, std::tuple{0.9, false, 6}}) {
    CompareOptions study = study_of({0.1, best});
    int calls = 0;
    tune(study, {.key = "optimizer.lr"},
         comparing([best = best](double lr) { return distance(lr, best); }, &calls));
    const TunedRecipe& tuned = study.tuned->recipes[0];
    EXPECT_EQ(tuned.at_edge, edge) << best;
    EXPECT_EQ(std::ssize(tuned.tried), tried) << best;
    EXPECT_EQ(study.tuned->recipes[1].tried.size(), 5) << "which had its best in the middle";
    EXPECT_LE(calls, 3);
    for (const TunedValue& each : tuned.tried) {
      double value = 0;
      ASSERT_TRUE(parse_real(each.value, value));
      EXPECT_GE(distance(value, best), distance(study.recipes[0].recipe.optimizer.lr, best) - 1e-9);
    }
  }
}

TEST(Tuning, StaysWithinTheRangeOfTheKey) {
  CompareOptions study = study_of({1e6});  // the largest that there is
  int calls = 0;
  tune(study, {.key = "optimizer.lr"}, comparing([](double lr) { return 1 / lr; }, &calls));
  EXPECT_EQ(study.recipes[0].recipe.optimizer.lr, 1e6);
  EXPECT_EQ(study.tuned->recipes[0].tried.size(), 3);
  EXPECT_TRUE(study.tuned->recipes[0].at_edge);
}

TEST(Tuning, NeverTakesARunThatFailed) {
  CompareOptions study = study_of({0.1});
  int calls = 0;
  tune(study, {.key = "optimizer.lr", .runs = 3},
       comparing([](double lr) { return lr > 0.05 ? NAN : 1 / lr; }, &calls));
  EXPECT_LT(study.recipes[0].recipe.optimizer.lr, 0.05);
  CompareOptions none = study_of({0.1});
  test::expect_error(ExitCode::kDiverged, [&] {
    tune(none, {.key = "optimizer.lr"}, comparing([](double) { return NAN; }, &calls));
  });
}

TEST(Tuning, TriesGivenValuesOfAnyKeyAndRefusesWhatIsNoNumber) {
  CompareOptions study = study_of({0.1});
  int calls = 0;
  size_t runs = 0;
  tune(study, {.key = "optimizer.weight_decay", .values = {"0", "0.1"}},
       comparing([](double) { return 1; }, &calls, &runs));
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(calls, 1) << "given values are not widened";
  for (const char* const key : {"optimizer.weight_decay", "model.name", "nothing"}) {
    CompareOptions other = study_of({0.1});
    other.recipes[0].recipe.optimizer.weight_decay = 0;
    test::expect_error(ExitCode::kUsage,
                       [&] { tune(other, {.key = key}, comparing([](double) { return 1; }, &calls)); });
  }
}

TEST(Tuning, TheEdgeOfGivenValuesIsThatOfTheirNumbers) {
  const auto at_edge = [](const std::string& key, const std::vector<std::string>& values,
                          const std::function<double(const Recipe&)>& loss) {
    CompareOptions study = study_of({0.1});
    tune(study, {.key = key, .values = values}, [&](const CompareOptions& options) {
      Comparison found;
      found.terms.lower_is_better = true;
      for (const NamedRecipe& named : options.recipes)
        found.recipes.push_back({.final = {.mean = loss(named.recipe), .count = 1, .runs = 1}});
      return found;
    });
    return study.tuned->recipes[0].at_edge;
  };
  const auto nearest = [](double best) {
    return [best](const Recipe& recipe) { return distance(recipe.optimizer.lr, best); };
  };
  const std::vector<std::string> rates = {"0.03", "0.0001", "0.3", "0.01"};
  EXPECT_FALSE(at_edge("optimizer.lr", rates, nearest(0.03))) << "which was typed first";
  EXPECT_FALSE(at_edge("optimizer.lr", rates, nearest(0.01))) << "which was typed last";
  EXPECT_TRUE(at_edge("optimizer.lr", rates, nearest(1e-5)));
  EXPECT_TRUE(at_edge("optimizer.lr", rates, nearest(10)));
  EXPECT_FALSE(at_edge("optimizer.name", {"sgd", "lion", "adamw"}, [](const Recipe& recipe) {
    return recipe.optimizer.algorithm.name == "sgd" ? 0.0 : 1.0;
  })) << "words have no edge";
}

}  // namespace
}  // namespace autotrain
