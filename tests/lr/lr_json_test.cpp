#include "lr/lr_json.h"

#include <gtest/gtest.h>

#include "lr/lr_page.h"
#include "support/support.h"

namespace autotrain {
namespace {

using Json = nlohmann::ordered_json;

const Json kDefinition = {{"recipe", {{"optimizer.lr", "0.1"}}}, {"from", 1e-6}};

LearningRateTest some_test() {
  LearningRateTest test{.name = "some", .clip_norm = 1.5, .samples = 5000, .definition = kDefinition};
  test.plan.effective_batch = 256;
  test.plan.lr = {.base = 0.1, .reference_batch = 64, .rule = "sqrt", .scaled = 0.2};
  test.stretches = {{.position = 512,
                     .start_loss = 2.3,
                     .points = {{0.1, 2.2}, {0.2, 2.1}},
                     .held = {{0.1, false}, {0.2, true}},
                     .edge = 0.1,
                     .diverges = true,
                     .steepest = 0.3,
                     .valley_end = 0.6},
                    {.start_loss = 2.4, .edge = 0.2, .diverges = true}};
  test.suggestion = suggest(test.stretches, test.plan.lr, test.reading());
  return test;
}

TEST(LrJson, ATestIsReadBackAsItWasWritten) {
  const Json written = to_json(some_test());
  const LearningRateTest read = learning_rate_test_from_json(written);
  EXPECT_EQ(to_json(read), written);
  EXPECT_EQ(read.stretches[0].points[1].loss, 2.1);
  EXPECT_EQ(read.suggestion.why_not, some_test().suggestion.why_not);
  EXPECT_FALSE(read.suggestion.why_not.empty());
}

TEST(LrJson, AKeptTestIsTakenForTheSameDefinitionOnly) {
  const test::TemporaryFolder folder;
  EXPECT_FALSE(kept_test(folder.path(), kDefinition));
  write_learning_rate({.name = "some", .test = some_test()}, folder.path());
  EXPECT_EQ(to_json(kept_test(folder.path(), kDefinition).value()), to_json(some_test()));
  EXPECT_TRUE(kept_test(folder.path(), {{"recipe", kDefinition.at("recipe")}})) << "whatever its grid";
  Json other = kDefinition;
  other["recipe"]["optimizer.lr"] = "0.2";
  const Error error = test::expect_error(ExitCode::kUsage, [&] { kept_test(folder.path(), other); });
  EXPECT_TRUE(test::holds(error.what(), "optimizer.lr is 0.1 there and 0.2 now")) << error.what();
  folder.write("lr.json", "{\"stretches\": [");
  test::expect_error(ExitCode::kBadData, [&] { kept_test(folder.path(), kDefinition); });
}

TEST(LrJson, ARaceAloneLeavesNoTestToKeep) {
  const test::TemporaryFolder folder;
  RateRace race{.figure = "loss", .own_lr = 0.1, .shares = {1}};
  race.racers = {{.lr = 0.1, .medians = {2}},
                 {.lr = 1, .medians = {std::numeric_limits<double>::infinity()}}};
  const LearningRateReport report{.name = "some", .race = race};
  write_learning_rate(report, folder.path());
  EXPECT_FALSE(kept_test(folder.path(), kDefinition));
  const Json json = to_json(report);
  EXPECT_EQ(json.at("recipe"), "some");
  EXPECT_EQ(json.at("race").at("winner"), 0.1);
  EXPECT_TRUE(json.at("race").at("racers").at(1).at("medians").at(0).is_null());
}

}  // namespace
}  // namespace autotrain
