#include "optim/schedule.h"

#include "optim/lr_rules.h"
#include "support/fixtures.h"
#include "support/support.h"

namespace autotrain {
namespace {

TEST(Schedule, FollowsPythonOverAHundredUpdates) {
  for (const auto& c : test::fixture("schedules.json")) {
    ScheduleRecipe recipe;
    recipe.shape.name = c.at("name");
    for (const auto& [key, value] : c.at("keys").items()) {
      recipe.shape.parameters[key] =
          value.is_number_integer() ? Value(value.get<int64_t>()) : Value(value.get<double>());
    }
    recipe.warmup = {Span::Unit::kUpdates, c.at("warmup").get<double>()};
    const Schedule schedule(recipe, 100, 32);
    const auto factors = c.at("factors").get<std::vector<double>>();
    for (int64_t update = 0; update < 100; ++update) {
      EXPECT_NEAR(schedule.factor(update), factors[static_cast<size_t>(update)], 1e-6)
          << recipe.shape.name << " update " << update;
    }
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
  EXPECT_GT(warmup("1e300 updates"), 1000) << "as good as for ever";
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

}  // namespace
}  // namespace autotrain
