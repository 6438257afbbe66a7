#include "optim/schedule.h"

#include <cmath>

#include "optim/lr_rules.h"
#include "support/fixtures.h"
#include "support/optimizers.h"
#include "support/support.h"

namespace autotrain {
namespace {

// Every shape with keys that bend it.
std::vector<Choice> shapes() {
  return {{"constant", {}},
          {"linear", {{"final_factor", 0.1}}},
          {"cosine", {{"final_factor", 0.1}}},
          {"step", {{"every", int64_t{7}}, {"factor", 0.5}}},
          {"polynomial", {{"power", 0.5}}},
          {"polynomial", {{"power", 3.0}, {"final_factor", 0.25}}},
          {"one_cycle", {}},
          {"one_cycle", {{"rise", 0.0}}},
          {"one_cycle", {{"rise", 1.0}}},
          {"restarts", {{"every", int64_t{7}}, {"growth", int64_t{3}}}},
          {"warmup_stable_decay", {{"decay", 0.0}}},
          {"warmup_stable_decay", {{"decay", 1.0}, {"decay_shape", std::string("sqrt")}}}};
}

Schedule schedule_of(const Choice& shape, int64_t total, double warmup = 0) {
  ScheduleRecipe recipe;
  recipe.shape = shape;
  recipe.warmup = {Span::Unit::kUpdates, warmup};
  return Schedule(recipe, total, 1);
}

TEST(Schedule, FollowsPythonOverAHundredUpdates) {
  for (const auto& c : test::fixture("schedules.json")) {
    ScheduleRecipe recipe;
    recipe.shape.name = c.at("name");
    for (const auto& [key, value] : c.at("keys").items())
      recipe.shape.parameters[key] = test::value_of(value);
    recipe.warmup = {Span::Unit::kUpdates, c.at("warmup").get<double>()};
    const Schedule schedule(recipe, 100, 32);
    const auto factors = c.at("factors").get<std::vector<double>>();
    for (double update = 0; update < 100; ++update) {
      EXPECT_NEAR(schedule.factor(update), factors[static_cast<size_t>(update)], 1e-6)
          << recipe.shape.name << " update " << update;
    }
  }
}

TEST(Schedule, StaysBetweenNothingAndTheRateForRunsOfAnyLength) {
  for (const Choice& shape : shapes()) {
    for (const int64_t total : {1, 2, 3, 10, 97}) {
      const Schedule schedule = schedule_of(shape, total);
      double most = 0;
      for (double update = 0; update < 2 * static_cast<double>(total);
           ++update) {  // a resume may find more updates than there were
        const double factor = schedule.factor(update);
        EXPECT_GE(factor, 0) << shape.name << " update " << update << " of " << total;
        EXPECT_LE(factor, 1) << shape.name << " update " << update << " of " << total;
        most = std::max(most, factor);
      }
      EXPECT_GT(most, 0.9) << shape.name << " of " << total << " comes near its rate";
    }
  }
}

// A jump is allowed where the shape is one.
TEST(Schedule, HasNoJumpsButWhereItStartsAgain) {
  constexpr int64_t kTotal = 10000;
  const std::vector<Choice> smooth = {
      {"polynomial", {}}, {"one_cycle", {}}, {"one_cycle", {{"rise", 0.01}}}, {"warmup_stable_decay", {}}};
  for (const Choice& shape : smooth) {
    const Schedule schedule = schedule_of(shape, kTotal);
    for (double update = 1; update < kTotal; ++update)
      ASSERT_LT(std::abs(schedule.factor(update) - schedule.factor(update - 1)), 0.02)
          << shape.name << " update " << update;
  }
  const Schedule warmed = schedule_of({"warmup_stable_decay", {}}, kTotal, 500);
  EXPECT_EQ(warmed.factor(499), 1);
  EXPECT_EQ(warmed.factor(500), 1);
}

// Where the effective batch changes, an update counts as many as its samples are of the first stage's.
TEST(Schedule, HasPartsOfUpdates) {
  const Schedule linear = schedule_of({"linear", {}}, 100);
  EXPECT_EQ(linear.factor(12.5), 0.875);
  const Schedule warmed = schedule_of({"linear", {}}, 100, 10);
  EXPECT_EQ(warmed.factor(2, 0.5), 0.25);
  EXPECT_EQ(warmed.factor(8, 4), 1) << "it ends within this update";
  const Schedule step = schedule_of({"step", {{"every", int64_t{10}}, {"factor", 0.5}}}, 100);
  EXPECT_EQ(step.factor(19.99), 0.5);
  EXPECT_EQ(step.factor(20), 0.25);
}

TEST(Schedule, OneCycleBeginsAndEndsWhereItSays) {
  const Schedule cycle = schedule_of({"one_cycle", {{"rise", 0.25}, {"first_factor", 0.2}}}, 100);
  EXPECT_DOUBLE_EQ(cycle.factor(0), 0.2);
  EXPECT_EQ(cycle.factor(24), 1) << "the peak";
  EXPECT_NEAR(cycle.factor(99), 4e-6, 1e-12) << "the last update";
}

TEST(Schedule, RestartsInPeriodsThatGrow) {
  const Schedule schedule = schedule_of({"restarts", {{"every", int64_t{5}}, {"growth", int64_t{2}}}}, 1, 0);
  EXPECT_EQ(schedule.factor(0), 1);
  for (const double start : {5, 15, 35, 75}) {
    EXPECT_LT(schedule.factor(start - 1), 0.1) << start;
    EXPECT_EQ(schedule.factor(start), 1) << start;
  }
  EXPECT_EQ(schedule_of({"restarts", {{"every", int64_t{10}}, {"growth", int64_t{2}}}}, 1).factor(20),
            schedule.factor(10))
      << "half way of a period is the same, however long it is";
  EXPECT_LE(schedule.factor(0x1p53), 1) << "however long the run";
}

TEST(Schedule, AStableRateFallsInTheLastPartOnly) {
  for (const char* shape : {"linear", "sqrt"}) {
    const Schedule schedule =
        schedule_of({"warmup_stable_decay", {{"decay", 0.2}, {"decay_shape", std::string(shape)}}}, 110, 10);
    EXPECT_EQ(schedule.factor(90), 1);
    EXPECT_LT(schedule.factor(91), 1);
    EXPECT_NEAR(schedule.factor(95), std::string(shape) == "sqrt" ? 0.5 : 0.75, 1e-12);
    EXPECT_NEAR(schedule.factor(110), 0, 1e-12);
  }
}

TEST(Schedule, WarmupIsCountedInUpdatesSamplesOrParts) {
  const auto warmup = [](const char* text) {
    ScheduleRecipe recipe;
    recipe.warmup = *Span::parse(text);
    return Schedule(recipe, 1000, 64).warmup_updates();
  };
  EXPECT_EQ(warmup("5%"), 50);
  EXPECT_EQ(warmup("20 updates"), 20);
  EXPECT_EQ(warmup("640 samples"), 10);
  EXPECT_EQ(warmup("641 samples"), 11);
  EXPECT_EQ(warmup("0"), 0);
  EXPECT_GT(warmup("9e15 updates"), 1000) << "as good as for ever";
}

TEST(Schedule, ALengthThatIsUnknownIsARecipeErrorWhereItMatters) {
  ScheduleRecipe cosine;
  cosine.shape.name = "cosine";
  EXPECT_TRUE(test::holds(test::expect_error(ExitCode::kBadRecipe, [&] { Schedule(cosine, {}, 1); }).what(),
                          "only stop.minutes"));
  ScheduleRecipe part;
  part.warmup = *Span::parse("5%");
  test::expect_error(ExitCode::kBadRecipe, [&] { Schedule(part, {}, 1); });
  EXPECT_NO_THROW(Schedule({}, {}, 1));
}

TEST(LrRules, ScaleByTheRatio) {
  EXPECT_EQ(find_lr_rule("linear").factor(4), 4);
  EXPECT_EQ(find_lr_rule("sqrt").factor(4), 2);
  EXPECT_EQ(find_lr_rule("none").factor(4), 1);
  for (const LrRule& rule : lr_rule_table()) EXPECT_EQ(rule.factor(1), 1) << rule.spec.name;
}

TEST(Schedule, AWarmUpInPercentIsTheNearestWholeNumberOfUpdates) {
  const auto warmup = [](const char* part, int64_t updates) {
    ScheduleRecipe recipe;
    recipe.warmup = *Span::parse(part);
    return Schedule(recipe, updates, 1).warmup_updates();
  };
  EXPECT_EQ(warmup("57%", 50), 29) << "28.5";
  EXPECT_EQ(warmup("5%", 100), 5);
  EXPECT_EQ(warmup("1%", 30), 0);
}

}  // namespace
}  // namespace autotrain
