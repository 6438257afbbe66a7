#include "compare/comparison.h"

#include <gtest/gtest.h>

#include <boost/math/distributions/binomial.hpp>
#include <cmath>
#include <functional>

#include "base/random.h"
#include "base/text.h"
#include "compare/compare_columns.h"
#include "compare/compare_exports.h"
#include "compare/compare_page.h"
#include "compare/compare_tables.h"
#include "compare/fairness.h"
#include "compare/key_effects.h"
#include "compare/over_tasks.h"
#include "study/statistics.h"
#include "support/support.h"

namespace autotrain {
namespace {

using Verdict = Difference::Verdict;

// A run that was evaluated twice, the second time at the end.
RunOutcome outcome(const std::string& recipe, int64_t seed, double halfway, double end, double seconds = 10,
                   int64_t samples = 1000) {
  return {.recipe = recipe,
          .seed = seed,
          .samples_per_second = 100,
          .peak_bytes = 1 << 20,
          .curve = {{5, samples / 2, seconds / 2, 0.5, {{"accuracy", halfway}}},
                    {10, samples, seconds, 1, {{"accuracy", end}}}}};
}

RunOutcome failure(const std::string& recipe, int64_t seed) {
  return {.recipe = recipe, .seed = seed, .failure = "diverged", .code = 76};
}

ComparisonTerms terms(std::vector<std::string> recipes) {
  ComparisonTerms t{.recipes = std::move(recipes), .figure = "accuracy"};
  for (size_t a = 0; a < t.recipes.size(); ++a) {
    for (size_t b = a + 1; b < t.recipes.size(); ++b) t.pairs.emplace_back(a, b);
  }
  return t;
}

TEST(Comparison, EqualSamplesAndEqualTimeAreThoseOfTheShortestRecipe) {
  const Comparison c =
      analyse(terms({"a", "b"}), {outcome("a", 1, 0.5, 0.7, 10, 1000), outcome("b", 1, 0.6, 0.8, 40, 800)});
  EXPECT_EQ(c.samples, 800);
  EXPECT_EQ(c.seconds, 10);
  EXPECT_DOUBLE_EQ(spread_of(c.recipes[0], "at_equal_samples").mean,
                   0.62);  // three fifths of the way from 500 to 1000
  EXPECT_DOUBLE_EQ(spread_of(c.recipes[0], "at_equal_seconds").mean, 0.7);
  EXPECT_DOUBLE_EQ(spread_of(c.recipes[1], "at_equal_samples").mean, 0.8);
  EXPECT_EQ(spread_of(c.recipes[1], "at_equal_seconds").count, 0);  // its first evaluation was later
  EXPECT_EQ(c.differences[1].verdict, Verdict::kRunsMissing);
  EXPECT_NE(c.differences[1].reason.find("not evaluated by then (seed 1)"), std::string::npos);
}

TEST(Comparison, OneRunThatEndsEarlySetsNoCut) {
  const Comparison c = analyse(terms({"a"}), {outcome("a", 1, 0.5, 0.7), outcome("a", 2, 0.5, 0.8),
                                              outcome("a", 3, 0.5, 0.6, 2, 200)});
  EXPECT_EQ(c.samples, 1000);
  EXPECT_EQ(c.seconds, 10);
  EXPECT_NEAR(spread_of(c.recipes[0], "at_equal_samples").mean, 0.7, 1e-12) << "what it had at its end";
}

// Five runs of each, three of "often" gone: the two that are left are far better.
TEST(Comparison, ARecipeWhoseRunsFailIsNotBetterByTheRest) {
  std::vector<RunOutcome> runs;
  for (int64_t seed = 1; seed <= 5; ++seed) {
    runs.push_back(outcome("steady", seed, 0.1, 0.8 + 0.001 * static_cast<double>(seed)));
    runs.push_back(seed > 2 ? failure("often", seed)
                            : outcome("often", seed, 0.1, 0.9 + 0.001 * static_cast<double>(seed)));
  }
  const ComparisonTerms t = terms({"steady", "often"});
  const Comparison c = analyse(t, runs);
  for (const Difference& d : c.differences) {
    EXPECT_EQ(d.verdict, Verdict::kRunsMissing);
    EXPECT_TRUE(std::isnan(d.p) && std::isnan(d.mean) && std::isnan(d.interval.low));
  }
  EXPECT_EQ(verdict_text(c.differences[0], t), "no verdict: often: 3 of 5 runs failed (seeds 3, 4, 5)");
  ASSERT_TRUE(c.best.recipe);
  EXPECT_EQ(*c.best.recipe, 0u);
  EXPECT_NE(answer_of(c).find("often has no part in this: 3 of 5 runs failed"), std::string::npos)
      << answer_of(c);
  const std::string notes = join(notes_of(c), "\n");
  EXPECT_NE(notes.find("often failed in 3 of 5 runs, so in 15 % to 95 % of all"), std::string::npos) << notes;
  EXPECT_NE(tables_of(c)[0].rows[1][2].find("(2 of 5)"), std::string::npos) << tables_of(c)[0].rows[1][2];
}

TEST(Comparison, AFigureThatWasNeverDefinedIsSaidOnce) {
  const Comparison c = analyse(terms({"a"}), {outcome("a", 1, NAN, NAN), outcome("a", 2, NAN, NAN)});
  EXPECT_EQ(
      answer_of(c),
      "No best is named, because no recipe has a value of every run. a has no part in this: 2 of 2 runs have "
      "no finite accuracy there (seeds 1, 2).");
}

TEST(Comparison, WhatIsEvaluatedOnOtherDataIsNotCompared) {
  std::vector<RunOutcome> runs;
  for (int64_t seed = 1; seed <= 3; ++seed) {
    const double noise = 0.001 * static_cast<double>(seed);
    for (const auto& [recipe, value] : {std::pair("euros", 0.5), {"thousands", 0.9}, {"wide", 0.6}})
      runs.push_back(outcome(recipe, seed, 0.1, value + noise));
  }
  ComparisonTerms t = terms({"euros", "thousands", "wide"});
  t.differing_keys = {{"data.validation.file", {"e.csv", "t.csv", "e.csv"}},
                      {"model.width", {"1", "1", "2"}}};
  const Comparison c = analyse(t, runs);
  EXPECT_EQ(c.differences[0].verdict, Verdict::kNotComparable);
  EXPECT_EQ(c.differences[1].verdict, Verdict::kBetter) << "euros and wide share their data";
  EXPECT_EQ(c.differences[2].verdict, Verdict::kNotComparable);
  EXPECT_FALSE(c.best.recipe);
  EXPECT_EQ(answer_of(c),
            "No best is named: euros and thousands are evaluated on different data (data.validation.file).");
}

TEST(Comparison, AnotherLossIsNoReasonUnlessTheFigureIsMadeOfIt) {
  ComparisonTerms t = terms({"a", "b"});
  t.differing_keys = {{"loss.name", {"mean_squared_error", "huber"}}};
  const std::vector<RunOutcome> runs = {outcome("a", 1, 0, 0.8), outcome("a", 2, 0, 0.9),
                                        outcome("b", 1, 0, 0.8), outcome("b", 2, 0, 0.9)};
  EXPECT_EQ(analyse(t, runs).differences[0].verdict, Verdict::kNotDistinguishable);
  t.figure = "loss";
  EXPECT_EQ(analyse(t, runs).differences[0].verdict, Verdict::kNotComparable);
}

TEST(Comparison, WhatLeavesOutOtherTargetsIsNotCompared) {
  ComparisonTerms t = terms({"a", "b"});
  t.differing_keys = {{"loss.ignore_index", {"-100", "0"}}};
  const std::vector<RunOutcome> runs = {outcome("a", 1, 0, 0.50), outcome("a", 2, 0, 0.51),
                                        outcome("b", 1, 0, 0.88), outcome("b", 2, 0, 0.89)};
  const Comparison c = analyse(t, runs);
  for (const Difference& d : c.differences) EXPECT_EQ(d.verdict, Verdict::kNotComparable);
  EXPECT_FALSE(c.best.recipe);
  EXPECT_TRUE(test::holds(answer_of(c), "evaluated on different targets (loss.ignore_index)"));
  t.differing_keys = {{"loss.ignore_index", {"-100", "absent"}}, {"loss.name", {"cross_entropy", "mine"}}};
  EXPECT_EQ(analyse(t, runs).differences[0].verdict, Verdict::kBetter) << "a loss without the key";
}

TEST(Comparison, WhatIsEvaluatedOnOtherNumbersOfSamplesIsNotCompared) {
  std::vector<RunOutcome> runs = {outcome("v10", 1, 0, 0.28), outcome("v10", 2, 0, 0.29),
                                  outcome("v50", 1, 0, 0.85), outcome("v50", 2, 0, 0.86)};
  for (RunOutcome& run : runs)
    for (CurvePoint& point : run.curve) point.evaluated = run.recipe == "v10" ? 60 : 300;
  ComparisonTerms t = terms({"v10", "v50"});
  t.differing_keys = {{"data.train.validation_share", {"0.1", "0.5"}}};
  t.target = Target{.figure = "accuracy", .value = 0.5};
  const Comparison c = analyse(t, runs);
  for (const Difference& d : c.differences) EXPECT_EQ(d.verdict, Verdict::kNotComparable);
  EXPECT_TRUE(std::isnan(c.target_tests[0].p));
  EXPECT_TRUE(test::holds(answer_of(c),
                          "No best is named: v10 and v50 are evaluated on different numbers of "
                          "samples (60 and 300)"));
  for (RunOutcome& run : runs)
    for (CurvePoint& point : run.curve) point.evaluated = 60;
  EXPECT_EQ(analyse(t, runs).differences[0].verdict, Verdict::kBetter);
}

// "short" ends before "long" was evaluated the first time.
TEST(Comparison, TheOneThatAloneWasEvaluatedByThenIsTheBestOfNothing) {
  const std::vector<RunOutcome> runs = {
      outcome("long", 1, 0.5, 0.6, 10, 1000), outcome("long", 2, 0.5, 0.6, 10, 1000),
      outcome("short", 1, 0.2, 0.4, 4, 400), outcome("short", 2, 0.2, 0.5, 4, 400)};
  const Comparison c = analyse(terms({"long", "short"}), runs);
  EXPECT_FALSE(c.best.recipe);
  EXPECT_EQ(c.best.alike, (std::vector<size_t>{1, 0})) << "either may be it";
  EXPECT_TRUE(
      test::holds(answer_of(c), "No best is named: after 400 samples short alone has a value of every run"));
  EXPECT_TRUE(test::holds(answer_of(c), "long has no part in this"));
}

TEST(Comparison, OfAFigureThatNothingMeasuredNoDirectionIsSaid) {
  const ComparisonTerms t = terms({"a", "b"});
  const std::string failed = notes_of(analyse(t, {failure("a", 1), failure("b", 1)})).front();
  EXPECT_TRUE(test::holds(failed, "compared by accuracy on the validation data. ")) << failed;
  EXPECT_TRUE(test::holds(notes_of(analyse(t, {failure("a", 1), outcome("b", 1, 0.5, 0.6)})).front(),
                          "on the validation data, of which more is better."));
}

// One of "late" is still being trained: it has not failed, and whether the others hold is not known.
TEST(Comparison, ARunThatIsUnderWayIsNoFailureAndLeavesItsRecipeOpen) {
  std::vector<RunOutcome> runs;
  for (int64_t seed = 1; seed <= 4; ++seed) {
    runs.push_back(outcome("done", seed, 0.1, 0.8 + 0.001 * static_cast<double>(seed)));
    runs.push_back(outcome("late", seed, 0.1, 0.9 + 0.001 * static_cast<double>(seed)));
  }
  runs.back() = {.recipe = "late", .seed = 4, .unfinished = "is not finished"};
  ComparisonTerms t = terms({"done", "late"});
  t.target = Target{.figure = "accuracy", .value = 0.85};
  const Comparison c = analyse(t, runs);
  EXPECT_EQ(c.recipes[1].failed, 0);
  EXPECT_EQ(c.recipes[1].unfinished, 1);
  EXPECT_EQ(c.differences[0].verdict, Verdict::kRunsMissing);
  EXPECT_EQ(c.differences[0].reason, "late: 1 of 4 runs has not ended (seed 4)");
  EXPECT_FALSE(c.best.recipe) << "either may be it";
  EXPECT_EQ(c.best.alike, (std::vector<size_t>{0, 1}));
  EXPECT_TRUE(std::isnan(c.target_tests.at(0).p)) << "whether it comes to the target is not known";
  EXPECT_EQ(c.recipes[1].reached, 3);
  EXPECT_FALSE(test::holds(join(notes_of(c), " "), "failed"));
  EXPECT_EQ(comparison_to_json(comparison_from_json(comparison_to_json(c))), comparison_to_json(c));
  EXPECT_TRUE(test::holds(comparison_to_csv(c), "late,4,1,0,is not finished"));
}

TEST(Comparison, RunsOfDifferentLengthsAreComparedAtTheirEndsAndBestsToo) {
  std::vector<RunOutcome> runs;
  for (int64_t seed = 1; seed <= 3; ++seed) {
    const double noise = 0.001 * static_cast<double>(seed);
    runs.push_back(outcome("early", seed, 0.9 + noise, 0.5 + noise, 5, 500));
    runs.push_back(outcome("late", seed, 0.3 + noise, 0.8 + noise));
  }
  const Comparison c = analyse(terms({"early", "late"}), runs);
  ASSERT_EQ(axes_of(c).size(), 4u);
  EXPECT_NEAR(spread_of(c.recipes[0], "at_end").mean, 0.502, 1e-12);
  EXPECT_NEAR(spread_of(c.recipes[0], "at_best").mean, 0.902, 1e-12);
  EXPECT_EQ(spread_of(c.recipes[0], "samples_to_best").mean, 250);
  const auto verdict = [&](FairAxis axis) {
    return std::ranges::find(c.differences, axis, &Difference::axis)->verdict;
  };
  EXPECT_EQ(verdict(FairAxis::kEnd), Verdict::kBetter);
  EXPECT_EQ(verdict(FairAxis::kBest), Verdict::kWorse);
  EXPECT_NE(join(notes_of(c), "").find("flattered"), std::string::npos);
}

// A grid asks for pairs with its first value alone; the best may be alike to others.
TEST(Comparison, TheBestOfAGridIsToldFromAllOthersAndFromTheEdge) {
  ComparisonTerms t = terms({"lr=1", "lr=2", "lr=3"});
  t.pairs = {{0, 1}, {0, 2}};
  t.axes = {{"optimizer.lr", {"1", "2", "3"}}};
  std::vector<RunOutcome> runs;
  for (int64_t seed = 1; seed <= 4; ++seed) {
    const double noise = 0.001 * static_cast<double>(seed);
    for (const auto& [recipe, value] : {std::pair("lr=1", 0.5), {"lr=2", 0.9}, {"lr=3", 0.9002}})
      runs.push_back(outcome(recipe, seed, 0.1, value + noise));
  }
  const Comparison c = analyse(t, runs);
  EXPECT_EQ(c.best.alike, (std::vector<size_t>{1}));
  EXPECT_NE(answer_of(c).find("cannot tell it from lr=2"), std::string::npos) << answer_of(c);
  EXPECT_NE(answer_of(c).find("the largest optimizer.lr of the grid"), std::string::npos) << answer_of(c);
}

TEST(Comparison, ACurveIsTheMeanOfTheSameRunsThroughout) {
  RunOutcome short_run = outcome("a", 2, 0.1, 0.2);
  short_run.curve.pop_back();
  const Comparison c = analyse(terms({"a"}), {outcome("a", 1, 0.5, 0.7), short_run});
  ASSERT_EQ(c.recipes[0].curve.size(), 1u) << "where one has ended there is no mean of both";
  EXPECT_EQ(c.recipes[0].curve[0].figure.count, 2);
}

TEST(Comparison, ADifferenceIsFoundAndSaysWhichIsBetter) {
  std::vector<RunOutcome> runs;
  for (int64_t seed = 1; seed <= 4; ++seed) {
    const double noise = 0.001 * static_cast<double>(seed);
    runs.push_back(outcome("low", seed, 0.1, 0.8 + noise));
    runs.push_back(outcome("high", seed, 0.1, 0.9 + noise));
  }
  ComparisonTerms t = terms({"low", "high"});
  const Difference d = analyse(t, runs).differences[0];
  EXPECT_EQ(d.verdict, Verdict::kBetter);
  EXPECT_NEAR(d.mean, 0.1, 1e-12);
  EXPECT_LT(d.interval.low, 0.1);
  EXPECT_GT(d.interval.high, 0.1);
  EXPECT_EQ(verdict_text(d, t), "high is better");
  t.lower_is_better = true;
  EXPECT_EQ(verdict_text(analyse(t, runs).differences[0], t), "low is better");
}

TEST(Comparison, WhatCannotBeToldApartSaysHowManySeedsWould) {
  const ComparisonTerms t = terms({"a", "b"});
  const Comparison c = analyse(t, {outcome("a", 1, 0, 0.80), outcome("a", 2, 0, 0.90),
                                   outcome("b", 1, 0, 0.82), outcome("b", 2, 0, 0.92)});
  const Difference& d = c.differences[0];
  EXPECT_EQ(d.verdict, Verdict::kNotDistinguishable);
  EXPECT_EQ(d.runs_needed, runs_needed(0.02, std::sqrt(0.005), std::sqrt(0.005), 0.05));
  EXPECT_NE(verdict_text(d, t).find("not distinguishable with these seeds"), std::string::npos);
}

TEST(Comparison, EqualRunsDoNotDifferAndOneSeedIsNotTested) {
  const Comparison equal = analyse(terms({"a", "b"}), {outcome("a", 1, 0, 0.8), outcome("a", 2, 0, 0.9),
                                                       outcome("b", 1, 0, 0.8), outcome("b", 2, 0, 0.9)});
  EXPECT_EQ(equal.differences[0].p, 1);
  EXPECT_EQ(equal.differences[0].verdict, Verdict::kNotDistinguishable);
  const Comparison one = analyse(terms({"a", "b"}), {outcome("a", 1, 0, 0.8), outcome("b", 1, 0, 0.9)});
  EXPECT_EQ(one.differences[0].verdict, Verdict::kNotTested);
  EXPECT_TRUE(std::isnan(one.recipes[0].final.deviation));
}

TEST(Comparison, FailedRunsAndFiguresThatAreNotFiniteAreLeftOutAndCounted) {
  const Comparison c =
      analyse(terms({"a", "b", "none"}),
              {outcome("a", 1, 0, 0.8), outcome("a", 2, 0, NAN), outcome("a", 3, 0, 0.9),
               outcome("b", 1, 0, 0.8), failure("b", 2), failure("none", 1), failure("none", 2)});
  EXPECT_EQ(c.recipes[0].final.count, 2);
  EXPECT_DOUBLE_EQ(c.recipes[0].final.mean, 0.85);
  EXPECT_EQ(c.recipes[1].failed, 1);
  EXPECT_EQ(c.recipes[2].final.count, 0);
  EXPECT_FALSE(tables_of(c).empty());
  EXPECT_FALSE(comparison_to_csv(c).empty());
}

TEST(Comparison, RunsThatHalvingLeftHaveACurveAndNothingElse) {
  RunOutcome left = outcome("b", 1, 0.5, 0.6, 3, 300);
  left.share = 1.0 / 3;
  ComparisonTerms t = terms({"a", "b"});
  t.rungs = {{1.0 / 3, {0.65, 0.6}}, {1, {0.8, NAN}}};
  const Comparison c = analyse(t, {outcome("a", 1, 0.5, 0.8), left});
  EXPECT_EQ(c.samples, 1000) << "not where the shorter one was left";
  EXPECT_EQ(c.recipes[1].final.count, 0);
  EXPECT_EQ(c.recipes[1].unfinished, 1);
  EXPECT_EQ(c.recipes[1].curve.size(), 2u);
  const auto tables = tables_of(c);
  const auto halving = std::ranges::find_if(
      tables, [](const page::Table& table) { return table.title.starts_with("successive halving"); });
  ASSERT_NE(halving, tables.end());
  EXPECT_EQ(halving->rows[1], (std::vector<std::string>{"b", "0.6", "-"}));
  EXPECT_NE(join(notes_of(c), "").find("Halving"), std::string::npos);
  t.rungs = {{1, {0.8, 0.7}}};
  EXPECT_EQ(join(notes_of(analyse(t, {outcome("a", 1, 0.5, 0.8)})), "").find("Halving"), std::string::npos)
      << "of one rung nothing was left out";
}

// A run whose training loss fell on a straight line from `first` to `last`, in ten updates.
RunOutcome falling(RunOutcome run, double first, double last) {
  double sum = 0;
  const int64_t each = run.curve.back().samples / 10;
  for (int64_t i = 1; i <= 10; ++i) {
    sum += static_cast<double>(each) * (first + (last - first) * (static_cast<double>(i) - 0.5) / 10);
    run.losses.push_back({i * each, sum});
  }
  run.plan = {{"effective_batch", each}};
  return run;
}

TEST(Comparison, EqualTrainingLossIsWhereEachRunFirstHadWhatTheWorstEndedWith) {
  const std::vector<RunOutcome> runs = {falling(outcome("fast", 1, 0.6, 0.9), 2, 0),
                                        falling(outcome("slow", 1, 0.5, 0.8), 2, 1)};
  const Comparison c = analyse(terms({"fast", "slow"}), runs);
  EXPECT_EQ(c.loss_window, 100);
  EXPECT_NEAR(c.training_loss, 1.05, 1e-12);  // of the slow one's last update
  EXPECT_NEAR(*c.runs[0].loss_place, 525, 1e-9);
  EXPECT_NEAR(*c.runs[1].loss_place, 1000, 1e-9);
  EXPECT_NEAR(spread_of(c.recipes[0], "at_equal_training_loss").mean, 0.615, 1e-12);  // of equal samples 0.9
  EXPECT_NEAR(spread_of(c.recipes[1], "at_equal_training_loss").mean, 0.8, 1e-12);
  EXPECT_EQ(c.differences.size(), 3u);
  EXPECT_EQ(c.differences[2].axis, FairAxis::kTrainingLoss);
  EXPECT_NEAR(c.differences[2].mean, 0.185, 1e-12);
  bool told = false;
  for (const std::string& note : notes_of(c))
    told |= note.find("the runs of slow ended") != std::string::npos;
  EXPECT_TRUE(told);
}

TEST(Comparison, OneRunThatHardlyLearnsSetsNoTrainingLoss) {
  std::vector<RunOutcome> runs;
  for (const int64_t seed : {1, 2, 3}) {
    runs.push_back(falling(outcome("fast", seed, 0.6, 0.9), 2, 0));
    runs.push_back(falling(outcome("slow", seed, 0.5, 0.8), 2, seed == 3 ? 1.9 : 1));
  }
  const Comparison c = analyse(terms({"fast", "slow"}), runs);
  EXPECT_NEAR(c.training_loss, 1.05, 1e-12) << "the median of the slow ones, not the one that ended at 1.9";
  EXPECT_EQ(spread_of(c.recipes[1], "at_equal_training_loss").count, 3);
  EXPECT_FALSE(c.runs.back().loss_place.has_value());
  bool told = false;
  for (const std::string& note : notes_of(c))
    told |= note.find("never came there (1 of slow)") != std::string::npos;
  EXPECT_TRUE(told);
}

TEST(Comparison, RunsThatLearnedMoreBeforeTheFirstMeanAreNotEqualInTheirLoss) {
  std::vector<RunOutcome> runs;
  for (const int64_t seed : {1, 2, 3}) {
    runs.push_back(falling(outcome("first", seed, 0.6, 0.9), 0.9, 0));
    runs.push_back(falling(outcome("second", seed, 0.6, 0.9), 2, 0));
    runs.push_back(falling(outcome("slow", seed, 0.5, 0.8), 2, 1));
  }
  const Comparison c = analyse(terms({"first", "second", "slow"}), runs);
  ASSERT_NEAR(c.training_loss, 1.05, 1e-12);
  int64_t on_axis = 0;
  for (const Difference& d : c.differences) {
    if (d.axis != FairAxis::kTrainingLoss) continue;
    ++on_axis;
    const bool of_first = d.a == 0 || d.b == 0;
    EXPECT_EQ(d.verdict == Difference::Verdict::kNotComparable, of_first) << d.a << d.b;
    EXPECT_EQ(d.reason.find("first had less already over the first 100 samples") != std::string::npos,
              of_first);
  }
  EXPECT_EQ(on_axis, 3);
  EXPECT_NE(join(notes_of(c), "").find("over their first 100 samples (3 of first)"), std::string::npos);
}

// Two axes; the figure is what `figure` says of their numbers and the seed.
Comparison grid_of(const std::function<double(int64_t a, int64_t b, int64_t seed)>& figure) {
  ComparisonTerms t = terms({"0-0", "0-1", "1-0", "1-1"});
  t.axes = {{"data.train.file", {"0", "0", "1", "1"}}, {"model.width", {"0", "1", "0", "1"}}};
  t.differing_keys = {{"data.validation.file", {"0", "0", "1", "1"}}};
  std::vector<RunOutcome> runs;
  for (int64_t i = 0; i < 4; ++i) {
    for (const int64_t seed : {1, 2}) {
      runs.push_back(outcome(t.recipes[static_cast<size_t>(i)], seed, 0, figure(i / 2, i % 2, seed)));
      runs.back().figure_kinds = {{"accuracy", {.better = Better::kHigher, .share = true}}};
    }
  }
  return analyse(std::move(t), std::move(runs));
}

TEST(Comparison, KeysOfAGridShareTheVarianceWithTheSeeds) {
  // Effects of ± 0.2, ± 0.1, together ± 0.05, and seeds ± 0.02: their squares are 4, 1, 0.25 and 0.04.
  const Comparison c = grid_of([](int64_t a, int64_t b, int64_t seed) {
    const double x = a == 0 ? -1 : 1, y = b == 0 ? -1 : 1, z = seed == 1 ? -1 : 1;
    return 0.5 + 0.2 * x + 0.1 * y + 0.05 * x * y + 0.02 * z;
  });
  const std::vector<KeyEffect> effects = key_effects(c);
  ASSERT_EQ(effects.size(), 4u);
  const std::array squares = {4.0, 1.0, 0.25, 0.04};
  for (size_t i = 0; i < squares.size(); ++i) EXPECT_NEAR(effects[i].share, squares[i] / 5.29, 1e-12) << i;
  EXPECT_EQ(effects[1].path, "model.width");
  EXPECT_NEAR(effects[1].least, 0.4, 1e-12);
  EXPECT_NEAR(effects[1].most, 0.6, 1e-12);

  Comparison partial = c;
  partial.runs.back().failure = "diverged";
  partial.runs.back().curve.clear();
  EXPECT_TRUE(key_effects(analyse(partial.terms, partial.runs)).empty()) << "the rest is not balanced";
}

TEST(Comparison, SharesAreTakenTogetherOverTheDataThatAGridVaries) {
  const Comparison c = grid_of(
      [](int64_t a, int64_t b, int64_t seed) { return 0.1 * static_cast<double>(a + 2 * b + 4 * seed); });
  const std::vector<TaskGroup> groups = groups_over_tasks(c);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[1].label, "width 1");
  EXPECT_EQ(groups[1].runs, 4);
  const Estimate narrow = interquartile_mean(groups[0].values);
  EXPECT_NEAR(narrow.value, 0.65, 1e-12) << "of 0.4, 0.5, 0.8 and 0.9 the middle two";
  EXPECT_LE(narrow.interval.low, narrow.value);
  EXPECT_GE(narrow.interval.high, narrow.value);
  bool found = false;
  for (const page::Table& table : tables_of(c))
    found |= table.title.starts_with("over the values of data.train.file");
  EXPECT_TRUE(found);
}

TEST(Comparison, WithoutLossesOrWithOthersThereIsNoEqualTrainingLoss) {
  std::vector<RunOutcome> runs = {falling(outcome("a", 1, 0.6, 0.9), 2, 0), outcome("b", 1, 0.5, 0.8)};
  EXPECT_EQ(axes_of(analyse(terms({"a", "b"}), runs)).size(), 2u);
  runs[1] = falling(runs[1], 2, 1);
  ComparisonTerms t = terms({"a", "b"});
  EXPECT_EQ(axes_of(analyse(t, runs)).size(), 3u);
  t.equal_losses = false;
  const Comparison c = analyse(t, runs);
  EXPECT_EQ(axes_of(c).size(), 2u);
  EXPECT_EQ(c.differences.size(), 2u);
}

TEST(Comparison, AGridIsATableOfItsFirstAxisByTheOthers) {
  ComparisonTerms t = terms({"E64-sgd", "E64-lars", "E256-lars"});
  t.axes = {{"batch.effective", {"64", "64", "256"}}, {"optimizer.name", {"sgd", "lars", "lars"}}};
  const Comparison c = analyse(
      t, {outcome("E64-sgd", 1, 0, 0.7), outcome("E64-lars", 1, 0, 0.8), outcome("E256-lars", 1, 0, 0.9)});
  const page::Table grid = tables_of(c).at(1);
  EXPECT_EQ(grid.title, "accuracy after 1,000 samples");
  EXPECT_EQ(grid.header, (std::vector<std::string>{"batch.effective", "sgd", "lars"}));
  EXPECT_EQ(grid.rows, (std::vector<std::vector<std::string>>{{"64", "0.7", "0.8"}, {"256", "", "0.9"}}));
  const std::string csv = comparison_to_csv(c);
  EXPECT_TRUE(csv.starts_with("recipe,seed,share,code,failure,batch.effective,optimizer.name,"));
  EXPECT_NE(csv.find("E256-lars,1,1,0,,256,lars,"), std::string::npos);
}

TEST(Comparison, SharpnessIsAColumnEachAndARunWithoutItSaysWhy) {
  std::vector<RunOutcome> runs = {outcome("a", 1, 0.5, 0.8), outcome("a", 2, 0.5, 0.8),
                                  outcome("b", 1, 0.5, 0.8)};
  runs[0].sharpness =
      Sharpness{.samples = 10, .loss = 1, .eigenvalue = 2, .square = 5, .rises = {{1, 3}, {2}, {4}}};
  runs[1].sharpness =
      Sharpness{.samples = 10, .loss = 3, .eigenvalue = 4, .square = 5, .rises = {{2, 4}, {2}, {4}}};
  runs[2].sharpness = Sharpness{.unavailable = "its graphs are differentiated once"};
  const Comparison c = analyse(terms({"a", "b"}), runs);
  ASSERT_EQ(c.recipes[0].sharpness.size(), 6u);
  EXPECT_EQ(c.recipes[0].sharpness[1].mean, 3);
  EXPECT_EQ(c.recipes[0].sharpness[2].mean, 15);
  EXPECT_EQ(c.recipes[0].sharpness[3].mean, 2.5);
  EXPECT_EQ(c.recipes[1].sharpness[0].count, 0);
  const auto notes = notes_of(c);
  EXPECT_NE(std::ranges::find(
                notes, "The sharpness of b is not available, because its graphs are differentiated once."),
            notes.end());
  EXPECT_NE(comparison_to_csv(c).find("sharpness_largest_eigenvalue"), std::string::npos);
  const auto json = comparison_to_json(c);
  EXPECT_EQ(comparison_to_json(comparison_from_json(json)), json);
}

TEST(Comparison, ATargetCountsTheRunsThatReachIt) {
  ComparisonTerms t = terms({"a"});
  t.target = Target{.figure = "accuracy", .value = 0.7};
  const Comparison c =
      analyse(t, {outcome("a", 1, 0.7, 0.8), outcome("a", 2, 0.6, 0.8), outcome("a", 3, 0.5, 0.6)});
  EXPECT_EQ(spread_of(c.recipes[0], "target_samples").count, 2);
  EXPECT_EQ(spread_of(c.recipes[0], "target_samples").mean, 750);
  EXPECT_EQ(spread_of(c.recipes[0], "target_seconds").mean, 7.5);
}

// So a column that is added to the list needs no other place.
TEST(Comparison, EveryFigureOfARunIsInCsvJsonAndTheTables) {
  ComparisonTerms t = terms({"a"});
  t.target = Target{.figure = "accuracy", .value = 0.7};
  const Comparison c = analyse(t, {outcome("a", 1, 0.7, 0.8), outcome("a", 2, 0.6, 0.8)});
  const auto recipe = comparison_to_json(c).at("recipes").at(0);
  const std::string csv = comparison_to_csv(c), header = csv.substr(0, csv.find('\r'));
  std::vector<std::string> headings;
  for (const page::Table& table : tables_of(c))
    headings.insert(headings.end(), table.header.begin(), table.header.end());
  for (const Column<ComparedRun>& column : run_columns()) {
    SCOPED_TRACE(column.name);
    EXPECT_TRUE(header.find("," + column.name) != std::string::npos);
    const bool of_target = column.name.starts_with("target_");
    EXPECT_TRUE(of_target ? recipe.at("to_target").contains(column.name.substr(7))
                          : recipe.contains(column.name));
    EXPECT_TRUE(column.heading.empty() || std::ranges::count(headings, column.heading) > 0);
  }
}

TEST(Comparison, TheGapIsTrainingSetLessValidation) {
  RunOutcome run = outcome("a", 1, 0.5, 0.75);
  run.training_set = {{"accuracy", 0.875}};
  EXPECT_EQ(analyse(terms({"a"}), {run}).recipes[0].gaps.at("accuracy").mean, 0.125);
}

TEST(Comparison, ReadBackFromItsFileItIsTheSame) {
  ComparisonTerms t = terms({"a", "b"});
  t.target = Target{.figure = "accuracy", .value = 0.7};
  t.seeds = {1, 2};
  t.differing_keys = {{"optimizer.lr", {"0.1", "0.2"}}};
  t.warnings = {"one"};
  t.rungs = {{1.0 / 3, {0.5, NAN}}, {1, {0.75, 0.8}}};
  t.axes = {{"optimizer.lr", {"0.1", "0.2"}}};
  const Comparison c =
      analyse(t, {falling(outcome("a", 1, 0.5, 0.75), 2, 1), falling(outcome("a", 2, NAN, 0.8), 2, 1),
                  falling(outcome("b", 1, 0.5, 0.8), 2, 1), failure("b", 2)});
  EXPECT_TRUE(std::isfinite(c.training_loss));
  const auto json = comparison_to_json(c);
  EXPECT_EQ(comparison_to_json(comparison_from_json(json)), json);
}

TEST(Comparison, TheCsvHasARowForEachRunAndQuotesWhatNeedsIt) {
  RunOutcome failed = failure("b", 1);
  failed.failure = "said \"no\", loudly\nand left";
  const std::string csv = comparison_to_csv(analyse(terms({"a", "b"}), {outcome("a", 1, 0.5, 0.75), failed}));
  EXPECT_TRUE(csv.starts_with("recipe,seed,share,code,failure,"));
  EXPECT_NE(csv.find("\r\na,1,1,0,,"), std::string::npos);
  EXPECT_NE(csv.find("\r\nb,1,1,76,\"said \"\"no\"\", loudly\nand left\",,"), std::string::npos);
}

TEST(Comparison, ManyRecipesHaveAMatrixInPlaceOfARowForEachPair) {
  std::vector<std::string> recipes;
  std::vector<RunOutcome> runs;
  for (int i = 0; i < 12; ++i) {
    recipes.push_back("r" + std::to_string(i));
    for (int64_t seed = 1; seed <= 3; ++seed)
      runs.push_back(outcome(recipes.back(), seed, 0.1, 0.5 + 0.03 * i + 0.0001 * static_cast<double>(seed)));
  }
  const auto tables = tables_of(analyse(terms(recipes), runs));
  const auto matrix =
      std::ranges::find_if(tables, [](const page::Table& t) { return t.title.starts_with("p (Holm)"); });
  ASSERT_NE(matrix, tables.end());
  EXPECT_EQ(matrix->rows.size(), 11u);
  EXPECT_EQ(matrix->header.size(), 12u);
  EXPECT_TRUE(matrix->rows[0][1].ends_with("▼")) << "the column's is better: " << matrix->rows[0][1];
  EXPECT_EQ(matrix->rows[1][1], "") << "each pair stands once";
}

TEST(Comparison, TablesForTextsEscapeWhatTheirFormatsRead) {
  const Comparison c =
      analyse(terms({"a_b|c", "50%"}), {outcome("a_b|c", 1, 0, 0.8), outcome("50%", 1, 0, 0.9)});
  const std::string markdown = comparison_to_markdown(c), latex = comparison_to_latex(c);
  EXPECT_TRUE(test::holds(markdown, "| a\\_b\\|c | 1 of 1 |"));
  EXPECT_TRUE(test::holds(latex, "a\\_b|c & 1 of 1 &"));
  EXPECT_TRUE(test::holds(latex, "50\\% & 1 of 1 &"));
  EXPECT_EQ(latex.find("±"), std::string::npos);
}

// What a reader needs to compute a figure again.
TEST(Comparison, EveryExportSaysHowItWasMade) {
  ComparisonTerms t = terms({"a", "b"});
  t.provenance = {.command = "autotrain compare a.yaml 'b c.yaml'",
                  .date = "2026-01-02 03:04 UTC",
                  .program = "9.8",
                  .data = {{{"data.train", "6 bytes, 3f"}}, {{"data.train", "6 bytes, 3f"}}}};
  const Comparison c = analyse(t, {outcome("a", 1, 0.5, 0.7), outcome("b", 1, 0.5, 0.8)});
  for (const std::string& text :
       {comparison_to_markdown(c), comparison_to_latex(c), page::render(comparison_page(c))}) {
    EXPECT_NE(text.find("2026-01-02 03:04 UTC"), std::string::npos);
    EXPECT_NE(text.find("compare a.yaml"), std::string::npos);
  }
  EXPECT_NE(page::render(comparison_page(c)).find("6 bytes, 3f"), std::string::npos);
  EXPECT_EQ(comparison_to_json(comparison_from_json(comparison_to_json(c))), comparison_to_json(c));
}

TEST(Comparison, CurvesHaveARowForEachEvaluation) {
  const std::string csv =
      curves_to_csv(analyse(terms({"a"}), {outcome("a", 1, 0.25, 0.75), outcome("a", 2, NAN, 0.5)}));
  EXPECT_EQ(
      csv,
      "recipe,seed,update,samples,seconds,epoch,accuracy\r\na,1,5,500,5,0.5,0.25\r\na,1,10,1000,10,1,0.75\r\n"
      "a,2,5,500,5,0.5,\r\na,2,10,1000,10,1,0.5\r\n");
}

// With few validation samples figures are often the same: that is no certainty.
TEST(Comparison, WhatDoesNotVaryIsNotTested) {
  std::vector<RunOutcome> runs;
  for (int64_t seed = 1; seed <= 3; ++seed) {
    runs.push_back(outcome("a", seed, 0.1, 0.9));
    runs.push_back(outcome("b", seed, 0.1, 0.8));
  }
  const Comparison c = analyse(terms({"a", "b"}), runs);
  EXPECT_EQ(c.differences[0].verdict, Verdict::kNoSpread);
  EXPECT_TRUE(std::isnan(c.differences[0].p));
  EXPECT_EQ(c.best.alike, std::vector<size_t>{1});
}

TEST(Comparison, PairsOfSeedsFindWhatWelchsTestDoesNot) {
  std::vector<RunOutcome> runs;
  const std::vector<double> of_seed = {0.70, 0.80, 0.90, 0.75, 0.85};
  for (size_t i = 0; i < of_seed.size(); ++i) {
    const double noise = 0.001 * static_cast<double>(i % 3);
    runs.push_back(outcome("a", static_cast<int64_t>(i) + 1, 0.1, of_seed[i]));
    runs.push_back(outcome("b", static_cast<int64_t>(i) + 1, 0.1, of_seed[i] + 0.01 + noise));
  }
  ComparisonTerms t = terms({"a", "b"});
  EXPECT_EQ(analyse(t, runs).differences[0].verdict, Verdict::kNotDistinguishable);
  EXPECT_TRUE(test::holds(join(notes_of(analyse(t, runs)), " "), "--paired"));
  t.paired = true;
  const Comparison paired = analyse(t, runs);
  EXPECT_EQ(paired.differences[0].verdict, Verdict::kBetter);
  EXPECT_GT(paired.differences[0].correlation, 0.99);
  EXPECT_LT(paired.differences[0].p_paired, 0.05);
  EXPECT_GT(paired.differences[0].p_welch, 0.05);
  runs.back().seed = 6;
  const Comparison others = analyse(t, runs);
  EXPECT_EQ(others.differences[0].verdict, Verdict::kNotTested) << "their seeds make no pairs";
  EXPECT_TRUE(test::holds(join(notes_of(others), " "), "seeds that are not the same"));
}

TEST(Comparison, AMarginTellsWhatIsTheSameFromWhatIsNotKnown) {
  std::vector<RunOutcome> runs;
  for (int64_t seed = 1; seed <= 5; ++seed) {
    const double noise = 0.001 * static_cast<double>(seed % 3);
    runs.push_back(outcome("a", seed, 0.1, 0.9 + noise));
    runs.push_back(outcome("b", seed, 0.1, 0.901 + 0.001 * static_cast<double>((seed + 1) % 3)));
  }
  ComparisonTerms t = terms({"a", "b"});
  t.margin = 0.01;
  const Comparison same = analyse(t, runs);
  EXPECT_EQ(same.differences[0].verdict, Verdict::kEquivalent);
  EXPECT_EQ(verdict_text(same.differences[0], t), "the same within 0.01");
  t.margin = 0.001;
  EXPECT_EQ(analyse(t, runs).differences[0].verdict, Verdict::kNotDistinguishable);
}

TEST(Comparison, ALookBeforeMakesVerdictsStricter) {
  std::vector<RunOutcome> runs;
  for (int64_t seed = 1; seed <= 5; ++seed) {
    const double noise = 0.01 * static_cast<double>(seed);
    runs.push_back(outcome("a", seed, 0.1, 0.5 + noise));
    runs.push_back(outcome("b", seed, 0.1, 0.527 + noise));
  }
  ComparisonTerms t = terms({"a", "b"});
  const Comparison first = analyse(t, runs);
  ASSERT_GT(first.differences[0].p, 0.025);
  ASSERT_EQ(first.differences[0].verdict, Verdict::kBetter);
  t.looks = {3};
  const Comparison second = analyse(t, runs);
  EXPECT_EQ(second.differences[0].verdict, Verdict::kNotDistinguishable);
  EXPECT_TRUE(test::holds(join(notes_of(second), " "), "Seeds were changed after 1 look (with 3)"));
}

TEST(Comparison, SecondsOfDifferentMachinesAreNotCompared) {
  std::vector<RunOutcome> runs;
  for (int64_t seed = 1; seed <= 3; ++seed) {
    for (const char* const recipe : {"a", "b"}) {
      runs.push_back(outcome(recipe, seed, 0.1, 0.5 + 0.01 * static_cast<double>(seed)));
      runs.back().plan = {{"device_name", recipe == std::string("a") ? "small" : "large"}};
    }
  }
  const Comparison c = analyse(terms({"a", "b"}), runs);
  EXPECT_EQ(c.differences[0].verdict, Verdict::kNotDistinguishable);
  EXPECT_EQ(c.differences[1].verdict, Verdict::kNotComparable);
  EXPECT_TRUE(test::holds(c.differences[1].reason, "large, small"));
}

TEST(Comparison, TheBestOfMoreEvaluationsIsNotCompared) {
  std::vector<RunOutcome> runs;
  for (int64_t seed = 1; seed <= 3; ++seed) {
    runs.push_back(outcome("a", seed, 0.1, 0.5 + 0.01 * static_cast<double>(seed)));
    runs.push_back(outcome("b", seed, 0.1, 0.5 + 0.01 * static_cast<double>(seed), 10, 1200));
  }
  ComparisonTerms t = terms({"a", "b"});
  t.differing_keys = {{"evaluation.every", {"1 epochs", "10 updates"}}};
  const Comparison c = analyse(t, runs);
  for (const Difference& d : c.differences)
    EXPECT_EQ(d.verdict == Verdict::kNotComparable, d.axis == FairAxis::kBest) << words_of(d.axis);
}

TEST(Comparison, OneRecipeUnderTwoNamesIsNamed) {
  const std::vector<RunOutcome> runs = {outcome("a", 1, 0, 0.8), outcome("b", 1, 0, 0.8),
                                        outcome("a", 2, 0, 0.9), outcome("b", 2, 0, 0.9)};
  ComparisonTerms t = terms({"a", "b"});
  EXPECT_TRUE(test::holds(join(notes_of(analyse(t, runs)), " "), "one recipe under two names"));
  t.differing_keys = {{"loss.name", {"x", "y"}}};
  EXPECT_TRUE(test::holds(join(notes_of(analyse(t, runs)), " "), "(loss.name) did nothing to it"));
}

TEST(Comparison, AFigureThatIsTooCoarseToTellTwoApartIsNoKeyThatDidNothing) {
  std::vector<RunOutcome> runs = {outcome("a", 1, 0, 1), outcome("b", 1, 0, 1), outcome("a", 2, 0, 1),
                                  outcome("b", 2, 0, 1)};
  for (RunOutcome& run : runs) run.curve.back().figures["loss"] = run.recipe == "a" ? 0.1 : 0.01;
  ComparisonTerms t = terms({"a", "b"});
  t.differing_keys = {{"optimizer.lr", {"0.1", "0.2"}}};
  const std::string said = join(notes_of(analyse(t, runs)), " ");
  EXPECT_TRUE(test::holds(said, "the same accuracy with every seed, and not to the same loss")) << said;
  EXPECT_FALSE(test::holds(said, "did nothing to it")) << said;
}

TEST(Comparison, WhileRunsAreStillToComeNothingIsTested) {
  std::vector<RunOutcome> runs;
  for (int64_t seed = 1; seed <= 5; ++seed) {
    const double noise = 0.01 * static_cast<double>(seed);
    runs.push_back(outcome("a", seed, 0.1, 0.5 + noise));
    runs.push_back(outcome("b", seed, 0.1, 0.7 + noise));
  }
  ComparisonTerms t = terms({"a", "b"});
  t.target = Target{.figure = "accuracy", .value = 0.6};
  ASSERT_EQ(analyse(t, runs).differences[0].verdict, Verdict::kBetter);
  t.so_far = true;
  const Comparison c = analyse(t, runs);
  for (const Difference& d : c.differences) {
    EXPECT_EQ(d.verdict, Verdict::kNotTested);
    EXPECT_TRUE(std::isnan(d.p_holm) && std::isnan(d.p_welch) && std::isnan(d.effect.value));
    EXPECT_EQ(verdict_text(d, c.terms), "not tested: runs are still to come");
  }
  EXPECT_TRUE(std::isnan(c.target_tests.at(0).p_holm));
  EXPECT_EQ(c.best.recipe, 1u);
  EXPECT_EQ(c.best.alike, std::vector<size_t>{0});
  EXPECT_TRUE(test::holds(answer_of(c), "nothing is tested yet"));
  EXPECT_EQ(comparison_to_json(comparison_from_json(comparison_to_json(c))), comparison_to_json(c));
}

TEST(Comparison, OtherEffectiveBatchesAreSaidWhereNoKeySaysThem) {
  std::vector<RunOutcome> runs = {outcome("a", 1, 0, 0.8), outcome("b", 1, 0, 0.9)};
  for (RunOutcome& run : runs) run.plan = {{"effective_batch", run.recipe == "a" ? 4 : 100}};
  ComparisonTerms t = terms({"a", "b"});
  t.differing_keys = {{"execution.micro_batch", {"4", "100"}}};
  EXPECT_TRUE(
      test::holds(join(notes_of(analyse(t, runs)), " "), "different effective batches (100: b; 4: a)"));
  t.differing_keys.push_back({"batch.effective", {"4", "100"}});
  EXPECT_FALSE(test::holds(join(notes_of(analyse(t, runs)), " "), "different effective batches"));
}

TEST(Comparison, FewValidationSamplesAreSaid) {
  std::vector<RunOutcome> runs = {outcome("a", 1, 0, 0.8), outcome("a", 2, 0, 0.8)};
  for (RunOutcome& run : runs) {
    run.figure_kinds["accuracy"] = {.better = Better::kHigher, .share = true, .of_samples = true};
    for (CurvePoint& point : run.curve) point.evaluated = 10;
  }
  const std::string said = join(notes_of(analyse(terms({"a"}), runs)), " ");
  EXPECT_TRUE(test::holds(said, "the same 10 validation samples"));
  EXPECT_TRUE(test::holds(said, "one sample more or less is 0.1"));
  EXPECT_TRUE(test::holds(said, "0.4439 to 0.9748"));  // Clopper and Pearson, of 8 of 10
  for (RunOutcome& run : runs) run.figure_kinds["accuracy"].of_samples = false;  // of tokens, or an area
  EXPECT_FALSE(test::holds(join(notes_of(analyse(terms({"a"}), runs)), " "), "one sample more"));
}

// Five runs that come early against five of which two never come; failed ones never do.
TEST(Comparison, RunsThatNeverReachATargetCount) {
  std::vector<RunOutcome> runs;
  for (int64_t seed = 1; seed <= 5; ++seed) {
    runs.push_back(outcome("a", seed, 0.9, 0.9));
    runs.push_back(seed <= 2   ? failure("b", seed)
                   : seed == 3 ? outcome("b", seed, 0.1, 0.2)
                               : outcome("b", seed, 0.1, 0.9));
  }
  ComparisonTerms t = terms({"a", "b"});
  t.target = Target{.figure = "accuracy", .value = 0.85};
  const Comparison c = analyse(t, runs);
  EXPECT_EQ(c.recipes[0].reached, 5);
  EXPECT_EQ(c.recipes[0].restricted.mean, 500);
  EXPECT_EQ(c.recipes[0].olympic_samples, 500);
  EXPECT_EQ(c.recipes[1].reached, 2);
  EXPECT_EQ(c.recipes[1].restricted.mean, 1000);
  EXPECT_TRUE(std::isnan(c.recipes[1].olympic_samples)) << "more than the worst never came";
  ASSERT_EQ(c.target_tests.size(), 1u);
  EXPECT_NEAR(c.target_tests[0].p, 2.0 / 252, 1e-12);
  EXPECT_LT(c.target_tests[0].statistic, 0) << "a is sooner";
}

// Studies in which nothing differs: every verdict is a false alarm. Five recipes with five seeds are ten
// tests on each axis; without a correction one study in four would have one.
TEST(Comparison, StudiesInWhichNothingDiffersRaiseNoMoreFalseAlarmsThanTheySay) {
  constexpr int kStudies = 200;
  const std::vector<std::string> recipes = {"a", "b", "c", "d", "e"};
  Random random(11);
  int alarms = 0;
  for (int study = 0; study < kStudies; ++study) {
    std::vector<RunOutcome> runs;
    for (const std::string& recipe : recipes) {
      for (int64_t seed = 1; seed <= 5; ++seed)
        runs.push_back(outcome(recipe, seed, 0.1, 0.9 + 0.01 * random.normal()));
    }
    bool alarm = false;
    for (const Difference& d : analyse(terms(recipes), runs).differences)
      alarm |= d.axis == FairAxis::kSamples && d.verdict != Verdict::kNotDistinguishable;
    alarms += alarm ? 1 : 0;
  }
  const boost::math::binomial stated(kStudies, kFalseAlarms);
  EXPECT_LE(alarms, boost::math::quantile(boost::math::complement(stated, 0.001)));
  RecordProperty("alarms", alarms);
}

}  // namespace
}  // namespace autotrain
