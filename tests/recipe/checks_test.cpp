#include "recipe/checks.h"

#include <limits>

#include "recipe/compare.h"
#include "recipe/idle_keys.h"
#include "state/catalog.h"
#include "support/support.h"

namespace autotrain {
namespace {

Recipe sound_recipe() {
  Recipe r;
  r.stop.updates = 1;
  return r;
}

struct Fault {
  const char* name;
  std::function<void(Recipe&)> make;
  std::vector<std::string> said;
};

class RecipeOfAProgram : public testing::TestWithParam<Fault> {};

TEST_P(RecipeOfAProgram, IsCheckedAsOneOfAFileIs) {
  Recipe r = sound_recipe();
  GetParam().make(r);
  const Error error = test::expect_error(ExitCode::kBadRecipe, [&] { check_recipe(r, catalog()); });
  for (const std::string& part : GetParam().said) EXPECT_TRUE(test::holds(error.what(), part));
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

INSTANTIATE_TEST_SUITE_P(
    Each, RecipeOfAProgram,
    testing::Values(
        Fault{"Negative", [](Recipe& r) { r.optimizer.lr = -1; }, {"optimizer.lr", "-1", "> 0"}},
        Fault{"NotANumber", [](Recipe& r) { r.optimizer.lr = kNan; }, {"optimizer.lr", "nan"}},
        Fault{"Infinite", [](Recipe& r) { r.optimizer.weight_decay = kInfinity; }, {"weight_decay", "inf"}},
        Fault{"OptionalNotANumber", [](Recipe& r) { r.stop.minutes = kNan; }, {"stop.minutes"}},
        Fault{"NoSamples", [](Recipe& r) { r.batch.effective = 0; }, {"batch.effective", "≥ 1"}},
        Fault{"UnknownOptimizer",
              [](Recipe& r) { r.optimizer.algorithm.name = "adamv"; },
              {"optimizer.name", "\"adamv\"", "did you mean \"adam"}},
        Fault{"UnknownModel",
              [](Recipe& r) {
                r.model = {"unet", {}};
              },
              {"model.name", "\"unet\"", "one of"}},
        Fault{"UnknownRule", [](Recipe& r) { r.batch.lr_rule = "cubic"; }, {"batch.lr_rule", "cubic"}},
        Fault{"UnknownSchedule", [](Recipe& r) { r.schedule.shape.name = ""; }, {"schedule.name"}},
        Fault{"MisspeltParameter",
              [](Recipe& r) {
                r.model = {"cnn", {{"dropuot", 0.5}}};
              },
              {"model.dropuot", "not a key of cnn", "did you mean \"dropout\""}},
        Fault{"ParameterOutOfRange",
              [](Recipe& r) {
                r.model = {"cnn", {{"dropout", 1.5}}};
              },
              {"model.dropout", "1.5"}},
        Fault{"ParameterNotANumber",
              [](Recipe& r) {
                r.model = {"cnn", {{"dropout", kNan}}};
              },
              {"model.dropout"}},
        Fault{"ParameterOfAnotherType",
              [](Recipe& r) {
                r.model = {"cnn", {{"dropout", std::string("half")}}};
              },
              {"model.dropout", "half"}},
        Fault{"ParameterOfValidation",
              [](Recipe& r) {
                r.data.validation = Choice{"fashion_mnist", {{"spilt", std::string("test")}}};
              },
              {"data.validation.spilt"}},
        Fault{"BadName", [](Recipe& r) { r.name = "../x"; }, {"name", "letters"}},
        Fault{"BadDevice", [](Recipe& r) { r.execution.device = "gpu"; }, {"execution.device", "gpu"}},
        Fault{"BadInterval",
              [](Recipe& r) {
                r.evaluation.every = {Interval::Unit::kUpdates, 0.5};
              },
              {"evaluation.every"}},
        Fault{"BadBudget",
              [](Recipe& r) { r.execution.memory.budget = Budget{.kind = Budget::Kind::kShare, .share = 2}; },
              {"execution.memory.budget", "200%"}},
        Fault{"BadBudgetOfADevice",
              [](Recipe& r) {
                r.execution.memory.budget.cuda = Budget{.kind = Budget::Kind::kShare, .share = 2};
              },
              {"execution.memory.budget", "200%"}},
        Fault{"NoEnumerator",
              [](Recipe& r) { r.execution.precision = static_cast<Precision>(99); },
              {"execution.precision"}},
        Fault{"BandNotANumber", [](Recipe& r) { r.execution.memory.target_low = kNan; }, {"target"}},
        Fault{"KeysThatDisagree", [](Recipe& r) { r.stop = {}; }, {"stop", "when the run ends"}}),
    [](const auto& instance) { return std::string(instance.param.name); });

TEST(CheckRecipe, EveryKeySaysWhatItDecides) {
  Recipe r = sound_recipe();
  r.optimizer.groups = {{.match = {"*.bias"}}};
  for (const std::string optimizer : {"sgd", "adamw"}) {
    r.optimizer.algorithm.name = optimizer;
    for (const KeyValue& key : key_values(r, catalog()))
      EXPECT_NE(key.decides, Decides::kUndeclared) << key.path;
  }
}

TEST(CheckRecipe, WhatDecidesMemoryIsNotWhatOnlyLearns) {
  const auto decided = [](const std::string& path) {
    for (const KeyValue& key : key_values(sound_recipe(), catalog())) {
      if (key.path == path) return key.decides;
    }
    return Decides::kUndeclared;
  };
  for (const char* path : {"model.dropout", "data.augment.mosaic", "batch.effective", "optimizer.name"}) {
    EXPECT_EQ(decided(path), Decides::kLearningAndMemory) << path;
  }
  for (const char* path : {"optimizer.lr", "seed", "stop.epochs", "schedule.warmup", "divergence.policy"}) {
    EXPECT_EQ(decided(path), Decides::kLearning) << path;
  }
  for (const char* path :
       {"execution.precision", "execution.memory.budget", "execution.cut", "evaluation.micro_batch"}) {
    EXPECT_EQ(decided(path), Decides::kMemory) << path;
  }
  for (const char* path :
       {"name", "evaluation.every", "checkpoint.keep", "report.html", "execution.telemetry"}) {
    EXPECT_EQ(decided(path), Decides::kRun) << path;
  }
}

TEST(CheckRecipe, WhatAScheduleCannotBeBesideIsRefused) {
  const auto refuse = [](const Recipe& r) {
    return test::expect_error(ExitCode::kBadRecipe, [&] { check_recipe(r, catalog()); });
  };
  Recipe r = sound_recipe();
  r.schedule.shape = {"one_cycle", {}};
  check_recipe(r, catalog());
  r.schedule.warmup = *Span::parse("5%");
  EXPECT_TRUE(test::holds(refuse(r).what(), "schedule.rise"));
  r = sound_recipe();
  r.schedule.shape = {"plateau", {}};
  check_recipe(r, catalog());
  r.evaluation.every = {};
  EXPECT_EQ(refuse(r).where(), "schedule.name");
  r.evaluation.every = *Interval::parse("1 minutes");
  EXPECT_EQ(refuse(r).where(), "evaluation.every");
}

std::vector<std::string> idle_in(const std::function<void(Recipe&)>& change) {
  Recipe r = sound_recipe();
  change(r);
  check_recipe(r, catalog());
  std::vector<std::string> paths;
  for (const IdleKey& key : idle_keys(r, catalog())) paths.push_back(key.path + ": " + key.why);
  return paths;
}

TEST(IdleKeys, AreThoseWhoseOwnerLeavesThemNothingToDo) {
  using Paths = std::vector<std::string>;
  EXPECT_EQ(idle_in([](Recipe&) {}), Paths());
  EXPECT_EQ(idle_in([](Recipe& r) { r.stop.min_delta = 0.5; }),
            Paths{"stop.min_delta: stop.patience is null"});
  EXPECT_EQ(idle_in([](Recipe& r) {
              r.stop.min_delta = 0.5;
              r.stop.patience = 3;
            }),
            Paths());
  EXPECT_EQ(idle_in([](Recipe& r) { r.divergence.lr_factor = 0.1; }),
            Paths{"divergence.lr_factor: divergence.policy is skip"});
  EXPECT_EQ(idle_in([](Recipe& r) {
              r.divergence.max_rollbacks = 9;
              r.divergence.policy = DivergencePolicy::kRollback;
            }),
            Paths());
  EXPECT_EQ(idle_in([](Recipe& r) { r.execution.recompute_blocks = 1; }).size(), 1u);
  EXPECT_EQ(idle_in([](Recipe& r) {
              r.execution.scaler.initial_scale = 4;
              r.execution.precision = Precision::kBf16;
            }),
            Paths{"execution.scaler.initial_scale: execution.precision is bf16"});
  EXPECT_EQ(idle_in([](Recipe& r) { r.execution.scaler.initial_scale = 4; }), Paths())
      << "what auto comes to depends on the device";
}

TEST(IdleKeys, AreThoseOfExpertsWhereThereAreNone) {
  const auto given = [](int64_t experts) {
    return idle_in([experts](Recipe& r) {
             r.model = {"transformer",
                        {{"experts", experts},
                         {"experts_per_token", int64_t{1}},
                         {"routing", std::string("experts_choose")},
                         {"balance", 5.0},
                         {"capacity", 2.0},
                         {"gate_skew", 3.0},
                         {"dropout", 0.1}}};
           })
        .size();
  };
  EXPECT_EQ(given(0), 5u);
  EXPECT_EQ(given(4), 0u);
}

TEST(IdleKeys, AreWhatDecaysWhereNothingDoes) {
  EXPECT_EQ(idle_in([](Recipe& r) { r.optimizer.decay_all = true; }).size(), 1u);
  EXPECT_TRUE(idle_in([](Recipe& r) {
                r.optimizer.decay_all = true;
                r.optimizer.groups = {{.match = {"a"}, .weight_decay = 0.1}};
              }).empty());
  EXPECT_EQ(idle_in([](Recipe& r) { r.optimizer.groups = {{.match = {"a"}, .decay_all = true}}; }),
            std::vector<std::string>{"optimizer.groups[0].decay_all: its weight_decay is 0"});
}

TEST(CheckRecipe, TakesDefaultsAndNullParameters) {
  check_recipe(sound_recipe(), catalog());
  Recipe r = sound_recipe();
  r.model = {"cnn", {{"dropout", Value()}}};  // null is the row's default, as in a file
  check_recipe(r, catalog());
}

}  // namespace
}  // namespace autotrain
