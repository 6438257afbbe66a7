#include "recipe/load.h"

#include <unistd.h>

#include <array>
#include <map>

#include "recipe/writer.h"
#include "support/catalog.h"
#include "support/support.h"

namespace autotrain {
namespace {

using test::TemporaryFolder;

const Catalog& rows() {
  static const Catalog catalog = test::small_catalog();
  return catalog;
}

Recipe load(const std::string& text, std::vector<std::string> overrides = {},
            std::map<std::string, std::string> variables = {}) {
  LoadOptions options{.overrides = std::move(overrides)};
  options.variables = [variables](const std::string& name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  return load_recipe_text("stop: {epochs: 1}\n" + text, "r.yaml", rows(), options);
}

Error load_error(const std::string& text, std::vector<std::string> overrides = {},
                 std::map<std::string, std::string> variables = {}, ExitCode code = ExitCode::kBadRecipe) {
  return test::expect_error(code, [&] { load(text, overrides, variables); });
}

struct Misuse {
  const char* name;
  const char* yaml;
  std::vector<const char*> message;
};

class RecipeMisuse : public testing::TestWithParam<Misuse> {};

TEST_P(RecipeMisuse, SaysWhereWhatAndWhatToTry) {
  const std::string message = load_error(GetParam().yaml).what();
  for (const char* part : GetParam().message) EXPECT_TRUE(test::holds(message, part));
}

INSTANTIATE_TEST_SUITE_P(
    Each, RecipeMisuse,
    testing::Values(
        Misuse{"MisspeltKey",
               "execution: {micro_bacth: 8}",
               {"r.yaml:2:13", "execution.micro_bacth", "\"micro_batch\""}},
        Misuse{"MisspeltSection", "exection: {micro_batch: 8}", {"r.yaml:2:1", "\"execution\""}},
        Misuse{"KeyInTheWrongSection",
               "batch: {micro_batch: 8}",
               {"batch.micro_batch", "execution.micro_batch"}},
        Misuse{"KeyOfAnotherRow", "model: {name: cnn, depth: 8}", {"model.depth", "key of mlp, not of cnn"}},
        Misuse{"UnknownRow", "model: {name: cn}", {"r.yaml:2:15", "model.name", "cnn or mlp", "\"cnn\""}},
        Misuse{"WrongType",
               "optimizer: {lr: fast}",
               {"r.yaml:2:17", "optimizer.lr", "\"fast\"", "a number > 0"}},
        Misuse{"QuotedNumber", "optimizer: {lr: \"0.1\"}", {"optimizer.lr", "a number"}},
        Misuse{"OutOfRange", "model: {name: mlp, dropout: 1.5}", {"model.dropout", "from 0 to 0.99"}},
        Misuse{"Negative", "seed: -1", {"seed", "≥ 0"}},
        Misuse{"NotAnInteger", "seed: 1.5", {"seed", "an integer"}},
        Misuse{"MoreThanAllReadersKeep",
               "seed: 12883432341234567890",
               {"seed", "an integer", "the largest is 9007199254740992"}},
        Misuse{"Infinity", "optimizer: {lr: .inf}", {"optimizer.lr", "a number"}},
        Misuse{"NotANumberOfPercent",
               "execution: {memory: {budget: nan%}}",
               {"r.yaml:2:30", "execution.memory.budget", "\"nan%\"", "2GiB"}},
        Misuse{"InfinitelyLongWarmUp", "schedule: {warmup: inf%}", {"schedule.warmup", "\"inf%\"", "5%"}},
        Misuse{"NeverReachedByCounting", "checkpoint: {every: inf epochs}", {"checkpoint.every", "inf"}},
        Misuse{"NotANumber", "optimizer: {lr: nan}", {"optimizer.lr", "\"nan\"", "a number > 0"}},
        Misuse{"NotAFlag", "data: {shuffle: yes}", {"data.shuffle", "true or false"}},
        Misuse{"ListForScalar", "seed: [1, 2]", {"seed", "a list is not"}},
        Misuse{"ScalarForSection", "model: cnn", {"model", "is not a group of keys"}},
        Misuse{"SectionForScalar", "seed: {a: 1}", {"seed", "a group of keys is not"}},
        Misuse{"WrongListLength", "execution: {memory: {target: [0.8]}}", {"has 1 items", "a list of 2"}},
        Misuse{
            "BandUpsideDown", "execution: {memory: {target: [0.9, 0.8]}}", {"r.yaml:2:30", "is not a band"}},
        Misuse{"AreasUpsideDown",
               "data: {augment: {random_resized_crop: [1, 0.5]}}",
               {"r.yaml:2:", "random_resized_crop", "[1, 0.5] is no range"}},
        Misuse{"AreaOfNothing", "data: {augment: {random_resized_crop: [0, 1]}}", {"> 0 and ≤ 1"}},
        Misuse{"BadBudget", "execution: {memory: {budget: much}}", {"execution.memory.budget", "2GiB"}},
        Misuse{"BudgetWithoutUnit",
               "execution: {memory: {budget: 48}}",
               {"r.yaml:2:30", "48 is a number of bytes", "48MiB"}},
        Misuse{"BudgetOfADeviceThatIsNone",
               "execution: {memory: {budget: {cpu: 1GiB, gpu: 2GiB}}}",
               {"r.yaml:2:42", "execution.memory.budget.gpu", "is not one of cpu or cuda"}},
        Misuse{"BudgetOfOneOfSeveralGpus",
               "execution: {memory: {budget: {\"cuda:1\": 2GiB}}}",
               {"r.yaml:2:31", "budget.cuda:1", "\"cuda\""}},
        Misuse{"BadBudgetOfADevice",
               "execution: {memory: {budget: {cpu: 1GiB, cuda: much}}}",
               {"r.yaml:2:48", "execution.memory.budget.cuda", "\"much\"", "2GiB"}},
        Misuse{"BudgetsWithinABudget",
               "execution: {memory: {budget: {cpu: {cuda: 1GiB}}}}",
               {"r.yaml:2:36", "execution.memory.budget.cpu", "a group of keys is not"}},
        Misuse{"BudgetOfADeviceWithoutUnit",
               "execution: {memory: {budget: {cuda: 48}}}",
               {"r.yaml:2:37", "execution.memory.budget.cuda", "48 is a number of bytes"}},
        Misuse{
            "GroupForATextThatHasNoParts", "execution: {device: {cpu: 1}}", {"execution.device", "a group"}},
        Misuse{"BadInterval", "checkpoint: {every: 3 days}", {"checkpoint.every", "1 epoch"}},
        Misuse{"BadName", "name: ../../etc", {"name", "letters, digits"}},
        Misuse{"PatienceWithoutValidation",
               "data: {validation: null}\nstop: {epochs: 1, patience: 2}",
               {"stands twice"}},
        Misuse{"MicroBatchAboveEffective",
               "batch: {effective: 8}\nexecution: {micro_batch: 16}",
               {"r.yaml:3:26", "execution.micro_batch", "more than all 8"}},
        Misuse{"ALimitBelowTheBatch",
               "batch: {effective: 32, limits: {max_effective: 8}}",
               {"r.yaml:2:48", "batch.limits.max_effective", "8 is less than batch.effective, 32"}},
        Misuse{"ALimitBelowAStage",
               "batch: {schedule: [{effective: 8}, {samples: 9, effective: 16}], limits: {max_effective: 8}}",
               {"batch.limits.max_effective", "a stage of batch.schedule, 16"}},
        Misuse{"ALimitBelowTheMicroBatchOfABatchThatIsAuto",
               "batch: {limits: {max_effective: 8}}\nexecution: {micro_batch: 64}",
               {"r.yaml:3:26", "execution.micro_batch", "more than all 8", "batch.limits.max_effective"}},
        Misuse{"ALimitBelowTheMicroBatch",
               "batch: {effective: 32, limits: {max_micro_batch: 8}}\nexecution: {micro_batch: 32}",
               {"r.yaml:3:26", "execution.micro_batch", "batch.limits.max_micro_batch, 8"}},
        Misuse{"ANameInCapitals",
               "optimizer: {name: AdamW}",
               {"r.yaml:2:19", "optimizer.name", "did you mean \"adamw\""}},
        Misuse{"ALossAsPyTorchCallsIt", "loss: {name: CrossEntropyLoss}", {"did you mean \"cross_entropy\""}},
        Misuse{
            "AScheduleAsPyTorchCallsIt", "schedule: {name: CosineAnnealingLR}", {"did you mean \"cosine\""}},
        Misuse{"APrecisionAsPyTorchCallsIt", "execution: {precision: BFloat16}", {"did you mean \"bf16\""}},
        Misuse{"AKeyInCapitals", "optimizer: {weightDecay: 0.1}", {"did you mean \"weight_decay\""}},
        Misuse{
            "ABatchSizeAsOthersCallIt", "batch_size: 64", {"r.yaml:2:1", "batch.effective", "searched for"}},
        Misuse{"EpochsAsOthersCallThem", "num_train_epochs: 3", {"stop.epochs"}},
        Misuse{"AccumulationAsOthersAskForIt",
               "batch: {gradient_accumulation_steps: 4}",
               {"nothing to type", "batch.effective"}},
        Misuse{"AKeyOfRowsElsewhere", "momentum: 0.9", {"optimizer.momentum of sgd"}},
        Misuse{"AnOptimizerAlone", "optimizer: AdamW", {"r.yaml:2:12", "write optimizer: {name: adamw}"}},
        Misuse{"ALossAlone", "loss: nn.MSELoss", {"not a group of keys"}},
        Misuse{"MissingDataset", "data: {validation: {root: /x}}", {"data.validation.dataset", "is missing"}},
        Misuse{"GroupsThatAreNoList",
               "optimizer: {groups: {match: a.*}}",
               {"r.yaml:2:21", "optimizer.groups", "not a list", "begin each"}},
        Misuse{"AGroupThatIsNone",
               "optimizer: {groups: [a.*]}",
               {"r.yaml:2:22", "optimizer.groups[0]", "not a group of keys"}},
        Misuse{"AGroupOfNothing",
               "optimizer: {groups: [{match: a}, {lr_factor: 2}]}",
               {"r.yaml:2:34", "optimizer.groups[1]", "which parameters", "match"}},
        Misuse{"AMisspeltKeyOfAGroup",
               "optimizer: {groups: [{match: a, lr_facto: 2}]}",
               {"r.yaml:2:33", "optimizer.groups[0].lr_facto", "\"lr_factor\""}},
        Misuse{"ARateOfAGroupThatIsNone",
               "optimizer: {groups: [{match: a, lr_factor: 0}]}",
               {"r.yaml:2:44", "optimizer.groups[0].lr_factor", "> 0"}},
        Misuse{"StagesThatAreText",
               "batch: {schedule: seesaw}",
               {"r.yaml:2:19", "batch.schedule", "not a list", "give rule"}},
        Misuse{"AStageWithoutSamples",
               "batch: {schedule: [{samples: 0}]}",
               {"r.yaml:2:20", "batch.schedule[0]", "how many samples", "effective"}},
        Misuse{"AFirstStageThatBeginsLate",
               "batch:\n  schedule:\n    - {samples: 5, effective: 8}",
               {"r.yaml:4:17", "batch.schedule[0].samples", "what holds before", "samples: 0"}},
        Misuse{"StagesInNoOrder",
               "batch:\n  schedule: [{effective: 8}, {samples: 9, effective: 4}, {samples: 9, effective: 8}]",
               {"r.yaml:3:68", "batch.schedule[2].samples", "9 is not after the 9"}},
        Misuse{"AStageOfNothing",
               "batch: {schedule: [{effective: 0}]}",
               {"r.yaml:2:32", "batch.schedule[0].effective", "≥ 1"}},
        Misuse{"AMisspeltRule",
               "batch: {schedule: {rule: sesaw}}",
               {"r.yaml:2:26", "batch.schedule.rule", "\"seesaw\""}},
        Misuse{"StagesBesideABatch",
               "batch: {effective: 8, schedule: [{effective: 8}]}",
               {"r.yaml:2:20", "batch.effective", "beside batch.schedule"}},
        Misuse{"SeesawWithoutABatch",
               "batch: {schedule: {rule: seesaw}}\nschedule: {name: cosine}",
               {"r.yaml:2:26", "batch.schedule.rule", "begins with batch.effective"}},
        Misuse{"SeesawOfWhatNeverFalls",
               "batch: {effective: 8, schedule: {rule: seesaw}}",
               {"r.yaml:2:40", "schedule constant", "cosine"}},
        Misuse{"ABoundWithoutARule",
               "batch: {effective: 8, limits: {min_effective: 4}}",
               {"r.yaml:2:47", "batch.limits.min_effective", "there is none"}},
        Misuse{"ABoundBelowTheBatch",
               "batch: {effective: 8, adapt: noise, limits: {max_effective: 4}}",
               {"r.yaml:2:61", "batch.limits.max_effective", "8 or more"}},
        Misuse{"ABoundAboveTheBatch",
               "batch: {effective: 8, adapt: noise, limits: {min_effective: 9}}",
               {"r.yaml:2:61", "batch.limits.min_effective", "8 or less"}},
        Misuse{"AKeyThatMoved",
               "batch: {effective: 8, cut: full}",
               {"r.yaml:2:23", "batch.cut", "is called execution.cut now"}},
        Misuse{"AKeyThatMovedFromItsSection",
               "execution: {search: {max_micro_batch: null}}",
               {"r.yaml:2:22", "is called batch.limits.max_micro_batch now"}},
        Misuse{"AKeyThatMovedFromBelow",
               "batch: {effective: 8, adapt: {rule: noise, max: 64}}",
               {"r.yaml:2:44", "batch.adapt.max", "is called batch.limits.max_effective now"}},
        Misuse{"TwoWhoDecideTheBatch",
               "batch: {schedule: [{effective: 8}], adapt: noise}",
               {"r.yaml:2:44", "batch.adapt.rule", "beside batch.schedule"}},
        Misuse{"ABatchThatFollowsNothing",
               "batch: {effective: 8, adapt: noise}\nevaluation: {every: never}",
               {"r.yaml:2:30", "batch.adapt", "evaluation.every is never"}},
        Misuse{"AnAdaptationThatIsNone",
               "batch: {effective: 8, adapt: nois}",
               {"r.yaml:2:30", "batch.adapt.rule", "\"noise\""}},
        Misuse{"NullKeyOfNowhere", "optimiser: null", {"optimiser", "\"optimizer\""}}),
    [](const auto& instance) { return std::string(instance.param.name); });

TEST(Load, ReadsEveryKindOfValue) {
  const Recipe r = load(
      "name: a\nmodel: {name: mlp, depth: 8, width: 1024}\n"
      "data: {train: {dataset: synthetic, shape: [3, 4]}, validation: {dataset: fashion_mnist}}\n"
      "optimizer: {name: sgd, lr: 1e-2, momentum: 0.9, clip_norm: 1}\nschedule: {warmup: 5%}\n"
      "batch: {effective: 512, lr_rule: sqrt}\n"
      "execution: {precision: bf16, micro_batch: auto, deterministic: false, memory: {budget: 2GiB}}\n");
  EXPECT_EQ(std::get<int64_t>(r.model.parameters.at("depth")), 8);
  EXPECT_EQ(std::get<std::vector<int64_t>>(r.data.train.parameters.at("shape")),
            (std::vector<int64_t>{3, 4}));
  EXPECT_EQ(r.data.validation->name, "fashion_mnist");
  EXPECT_EQ(r.optimizer.lr, 0.01);
  EXPECT_EQ(r.optimizer.clip_norm, 1.0);
  EXPECT_EQ(r.schedule.warmup, *Span::parse("5%"));
  EXPECT_EQ(r.batch.effective, 512);
  EXPECT_EQ(r.execution.precision, Precision::kBf16);
  EXPECT_FALSE(r.execution.micro_batch);
  EXPECT_EQ(r.execution.deterministic, false);
  EXPECT_EQ(r.execution.memory.budget.any.bytes, int64_t{2} << 30);
  EXPECT_TRUE(r.asked("optimizer.lr"));
  EXPECT_FALSE(r.asked("optimizer.weight_decay"));
}

TEST(Load, WrittenRecipeReadsBackEqual) {
  const Recipe r = load(
      "name: a\nseed: 7\nmodel: {name: mlp, depth: 8}\n"
      "data: {train: {dataset: synthetic}, augment: {random_resized_crop: [0.1, 1], hue: 0.25}}\n"
      "optimizer: {name: sgd, lr: 1e-8, clip_norm: 0.5}\nschedule: {warmup: 100 updates}\n"
      "execution: {memory: {budget: 33%, target: [0.5, 0.75]}, deterministic: true}\n");
  const std::string text = write_recipe(r, rows());
  const Recipe again = load_recipe_text(text, "again", rows());
  EXPECT_EQ(write_recipe(again, rows()), text);
  EXPECT_EQ(again.optimizer.lr, 1e-8);
  EXPECT_EQ(again.data.augment, r.data.augment);
  EXPECT_EQ(again.data.augment.random_resized_crop->least, 0.1);
  EXPECT_EQ(again.execution, r.execution);
}

DeviceBudgets budgets_of(const std::string& text, const std::vector<std::string>& overrides = {}) {
  const Recipe r = load(text, overrides);
  const std::string written = write_recipe(r, rows());
  const Recipe again = load_recipe_text(written, "again", rows());
  EXPECT_EQ(again.execution.memory.budget, r.execution.memory.budget) << written;
  EXPECT_EQ(write_recipe(again, rows()), written);
  return r.execution.memory.budget;
}

TEST(Load, ABudgetMayBeOneForEachDevice) {
  const std::string both = "execution: {memory: {budget: {cpu: 256MiB, cuda: 50%}}}";
  const DeviceBudgets budgets = budgets_of(both);
  EXPECT_EQ(budgets.on("cpu"), *Budget::parse("256MiB"));
  EXPECT_EQ(budgets.on("cuda:1"), *Budget::parse("50%"));
  EXPECT_EQ(budgets_of("execution: {memory: {budget: {cuda: 4GiB}}}").on("cpu"), Budget{}) << "auto";
  EXPECT_EQ(budgets_of("execution: {memory: {budget: {cpu: auto, cuda: null}}}").on("cuda:0"), Budget{});
  EXPECT_EQ(budgets_of("execution: {memory: {budget: 1GiB}}").on("cuda:0"), *Budget::parse("1GiB"));
  EXPECT_EQ(budgets_of(both, {"execution.memory.budget.cuda=2GiB"}).on("cuda:0"), *Budget::parse("2GiB"));
  EXPECT_EQ(budgets_of(both, {"execution.memory.budget.cuda=2GiB"}).on("cpu"), *Budget::parse("256MiB"));
  EXPECT_EQ(budgets_of(both, {"execution.memory.budget=1GiB"}), DeviceBudgets(*Budget::parse("1GiB")));
  EXPECT_EQ(budgets_of(both, {"execution.memory.budget=null"}), DeviceBudgets());
  EXPECT_TRUE(load(both).asked("execution.memory.budget.cuda"));
}

TEST(Load, ABudgetThatIsAssignedIsThatOfEveryDevice) {
  Recipe r = load("execution: {memory: {budget: {cpu: 256MiB, cuda: 50%}}}");
  r.execution.memory.budget = *Budget::parse("1GiB");
  EXPECT_EQ(r.execution.memory.budget.on("cpu"), *Budget::parse("1GiB"));
  EXPECT_EQ(r.execution.memory.budget.on("cuda:0"), *Budget::parse("1GiB"));
}

TEST(Load, ReferenceIsTheDefaultRecipe) {
  const Recipe reference =
      load_recipe_text(write_reference(rows()), "reference", rows(), {.overrides = {"stop.epochs=1"}});
  const Recipe defaults = load("");
  EXPECT_EQ(write_recipe(reference, rows()), write_recipe(defaults, rows()));
}

TEST(Load, OverridesWinInOrderAndNullUnsets) {
  const Recipe r = load("optimizer: {lr: 0.5, clip_norm: 1}", {"optimizer.lr=0.1", "optimizer.lr=0.2",
                                                               "optimizer.clip_norm=null", "model.name=mlp"});
  EXPECT_EQ(r.optimizer.lr, 0.2);
  EXPECT_FALSE(r.optimizer.clip_norm);
  EXPECT_EQ(r.model.name, "mlp");
}

TEST(Load, AnotherRowDropsTheKeysOfTheOldOneAndKeepsTheCommonOnes) {
  const Recipe r =
      load("optimizer: {name: sgd, momentum: 0.9, lr: 0.5}\nmodel: {name: mlp, depth: 4, width: 64}",
           {"optimizer.name=adamw", "model.name=cnn"});
  EXPECT_EQ(r.optimizer.lr, 0.5) << "a key of every optimizer";
  EXPECT_TRUE(r.optimizer.algorithm.parameters.empty());
  EXPECT_TRUE(r.model.parameters.empty()) << "a width of an mlp means nothing to a cnn";
}

TEST(Load, WhatOverridesGiveIsReadOrRefusedWhateverTheirOrder) {
  const std::string adamw = "optimizer: {name: adamw, beta1: 0.5}";
  for (const std::vector<std::string>& overrides :
       {std::vector<std::string>{"optimizer.momentum=0.9", "optimizer.name=sgd"},
        {"optimizer.name=sgd", "optimizer.momentum=0.9"},
        {"optimizer.momentum=0.9", "optimizer={name: sgd}"},
        {"optimizer={name: sgd, momentum: 0.9}", "optimizer.name=adamw", "optimizer.name=sgd"}}) {
    const Recipe r = load(adamw, overrides);
    EXPECT_EQ(r.optimizer.algorithm, (Choice{"sgd", {{"momentum", 0.9}}})) << overrides[0];
  }
  EXPECT_TRUE(test::holds(load_error(adamw, {"optimizer.momentun=0.9", "optimizer.name=sgd"}).what(),
                          "--set optimizer.momentun=0.9"));
  EXPECT_TRUE(test::holds(load_error(adamw, {"optimizer.momentum=0.9", "optimizer.name=adamw"}).what(),
                          "key of sgd, not of adamw"));
  EXPECT_TRUE(
      test::holds(load_error("optimizer: {name: sgd}", {"optimizer.beta1=0.9"}).what(), "not of sgd"));
  EXPECT_TRUE(test::holds(
      load_error("", {"optimizer.name=sgd", "optimizer.momentum=0.9", "optimizer.name=adamw"}).what(),
      "key of sgd, not of adamw"))
      << "of a file that says nothing of it";
}

TEST(Load, OverridesThatComeBackToTheRowOfTheFileKeepItsKeys) {
  const std::string adamw = "optimizer: {name: adamw, beta1: 0.5}";
  EXPECT_EQ(load(adamw, {"optimizer.name=sgd", "optimizer.name=adamw"}).optimizer.algorithm,
            (Choice{"adamw", {{"beta1", 0.5}}}));
  const std::string validation = "data: {validation: {dataset: fashion_mnist, limit: 7}}";
  EXPECT_EQ(
      load(validation, {"data.validation=null", "data.validation.dataset=fashion_mnist"}).data.validation,
      (Choice{"fashion_mnist", {}}))
      << "what was unset stays so";
}

TEST(Load, AnotherRowDropsKeysThatAreNull) {
  EXPECT_EQ(load("optimizer: {name: sgd, momentum: null}", {"optimizer.name=adamw"}).optimizer.algorithm.name,
            "adamw");
}

TEST(Load, GroupsOfParametersAreAListOfSections) {
  const Recipe r = load(
      "optimizer:\n  groups:\n    - {match: backbone.*, lr_factor: 0.1, weight_decay: 0}\n"
      "    - {match: [\"*.bias\", \"*.norm?.*\"], decay_all: true}\n");
  ASSERT_EQ(r.optimizer.groups.size(), 2u);
  EXPECT_EQ(r.optimizer.groups[0], (ParameterGroupRecipe{{"backbone.*"}, 0.1, 0.0, {}}));
  EXPECT_EQ(r.optimizer.groups[1], (ParameterGroupRecipe{{"*.bias", "*.norm?.*"}, 1, {}, true}));
  EXPECT_TRUE(r.asked("optimizer.groups[0].lr_factor"));
  EXPECT_FALSE(r.asked("optimizer.groups[1].lr_factor"));
  const std::string text = write_recipe(r, rows());
  const Recipe again = load_recipe_text(text, "again", rows());
  EXPECT_EQ(again.optimizer.groups, r.optimizer.groups) << text;
  EXPECT_EQ(write_recipe(again, rows()), text);
  EXPECT_EQ(load("", {"optimizer.groups=[{match: \"backbone.*\", lr_factor: 0.1, weight_decay: 0}]"})
                .optimizer.groups,
            std::vector<ParameterGroupRecipe>{r.optimizer.groups[0]});
  EXPECT_TRUE(load("optimizer: {groups: [{match: a}]}", {"optimizer.groups=null"}).optimizer.groups.empty());
}

TEST(Load, StagesOfABatchAreAListOrARule) {
  const auto again = [](const Recipe& r) {
    const std::string text = write_recipe(r, rows());
    const Recipe read = load_recipe_text(text, "again", rows());
    EXPECT_EQ(write_recipe(read, rows()), text);
    return read.batch;
  };
  const Recipe listed =
      load("batch:\n  schedule: [{samples: 0, effective: 64}, {samples: 100000, effective: 256}]\n");
  EXPECT_EQ(listed.batch.schedule.stages, (std::vector<BatchStageRecipe>{{0, 64}, {100000, 256}}));
  EXPECT_TRUE(listed.batch.changes());
  EXPECT_EQ(again(listed), listed.batch);
  const Recipe seesaw = load(
      "batch: {effective: 64, schedule: {rule: seesaw}, limits: {max_effective: 1024}}\nschedule: {name: "
      "cosine}");
  EXPECT_EQ(seesaw.batch.schedule.rule, BatchRule::kSeesaw);
  EXPECT_EQ(*seesaw.batch.limits.max_effective, 1024);
  EXPECT_EQ(again(seesaw), seesaw.batch);
  const Recipe adapted = load("batch: {effective: 64, adapt: noise}");
  EXPECT_TRUE(adapted.batch.adapts());
  EXPECT_EQ(again(adapted), adapted.batch);
  EXPECT_EQ(load("batch: {effective: 64, adapt: {rule: noise}, limits: {min_effective: 32}}").batch.limits,
            (BatchLimitsRecipe{.min_effective = 32}));
  EXPECT_EQ(load("batch: {effective: 8, schedule: {rule: seesaw}}\nschedule: {name: cosine}",
                 {"batch.effective=null", "batch.schedule=[{effective: 16}]"})
                .batch.schedule,
            (BatchScheduleRecipe{.stages = {{0, 16}}}));
  EXPECT_FALSE(load("batch: {schedule: [{effective: 64}]}", {"batch.schedule=null"}).batch.changes());
  EXPECT_FALSE(load("batch: {effective: 64, adapt: noise}", {"batch.adapt=none"}).batch.changes());
  EXPECT_FALSE(load("").batch.changes());
}

TEST(Load, AFileOfWeightsMayStandInThePlaceOfItsSection) {
  const Recipe text = load("model: {weights: w.safetensors}"),
               section = load("model: {weights: {file: w.safetensors}}");
  EXPECT_EQ(text, section);
  EXPECT_EQ(text.weights.file, "w.safetensors");
  EXPECT_TRUE(text.asked("model.weights.file"));
  EXPECT_EQ(load("", {"model.weights=w.safetensors"}).weights.file, "w.safetensors");
  const Recipe more =
      load("model: {freeze: [a.*], weights: {file: w, skip: [fc.*], rename: ['a -> b'], shapes: keep}}");
  EXPECT_EQ(more.freeze, std::vector<std::string>{"a.*"});
  EXPECT_EQ(more.weights.shapes, Unmatched::kKeep);
  const Recipe again = load_recipe_text(write_recipe(more, rows()), "w.yaml", rows());
  EXPECT_EQ(again.weights, more.weights);
  EXPECT_EQ(again.freeze, more.freeze);
  EXPECT_TRUE(test::holds(load_error("model: {weights: {rename: [ab]}}").what(), "expression -> name"));
}

TEST(Load, MalformedOverridesAreUsageErrorsAndBadValuesRecipeErrors) {
  for (const char* bad : {"optimizer.lr", "=1", ".lr=1", "optimizer..lr=1", "optimizer.=1"}) {
    load_error("", {bad}, {}, ExitCode::kUsage);
  }
  for (const char* const empty : {"optimizer.lr=", "optimizer.lr=  "}) {
    const Error error = load_error("optimizer: {lr: 0.01}", {empty}, {}, ExitCode::kUsage);
    EXPECT_TRUE(test::holds(error.what(), "gives no value"));
    EXPECT_TRUE(test::holds(error.what(), "optimizer.lr=null"));
  }
  EXPECT_TRUE(
      test::holds(load_error("", {"optimizer.lr=fast"}).what(), "--set optimizer.lr=fast: optimizer.lr"));
  EXPECT_TRUE(test::holds(load_error("", {"optimizer.lt=1"}).what(), "\"lr\""));
  load_error("", {"optimizer.lr=[1"});
}

TEST(Load, VariablesAreReplacedInValues) {
  const Recipe r = load(
      "name: ${RUN}-${N:-7}\nseed: ${SEED}\ndata: {train: {dataset: fashion_mnist, root: "
      "\"$${HOME}/${EMPTY:-x}\"}}",
      {"model.name=${MODEL}"}, {{"RUN", "a"}, {"SEED", "5"}, {"MODEL", "mlp"}, {"EMPTY", ""}});
  EXPECT_EQ(r.name, "a-7");
  EXPECT_EQ(r.seed, 5);
  EXPECT_EQ(std::get<std::string>(r.data.train.parameters.at("root")), "${HOME}/x");
  EXPECT_EQ(r.model.name, "mlp");
  EXPECT_TRUE(test::holds(load_error("name: ${NOWHERE}").what(), "NOWHERE is not set"));
  EXPECT_TRUE(test::holds(load_error("name: ${NOWHERE").what(), "without a closing"));
  EXPECT_TRUE(test::holds(load_error("name: ${9x}").what(), "not the name of a variable"));
}

TEST(Load, DollarSignsOfAWrittenRecipeAreReadBackAsTheyWere) {
  for (const std::string root : {"${V}", "$${V}", "a$$b", "$$$", "$", "$1", "a$${", "$${V}/$$/${W"}) {
    Recipe r = load("");
    r.data.train = {"fashion_mnist", {{"root", root}}};
    r.weights = {.file = root, .skip = {root, "fc.*"}};
    r.optimizer.groups = {{.match = {root}}};
    const std::string text = write_recipe(r, rows());
    const Recipe again = load_recipe_text(text, "again", rows(), {.variables = [](const std::string&) {
                                            return std::optional<std::string>("another");
                                          }});
    EXPECT_EQ(again.data.train, r.data.train) << text;
    EXPECT_EQ(again.weights, r.weights) << text;
    EXPECT_EQ(again.optimizer.groups, r.optimizer.groups) << text;
    EXPECT_EQ(write_recipe(again, rows()), text);
  }
  Recipe named = load("");
  named.weights.rename = {"a(.*) -> $1"};
  EXPECT_TRUE(test::holds(write_recipe(named, rows()), "-> $1\"")) << "a lone $ stays as people write it";
}

TEST(Load, EmptyRecipesAreRecipeErrors) {
  for (const char* text : {"", "# nothing\n", "null\n"}) {
    test::expect_error(ExitCode::kBadRecipe, [&] { load_recipe_text(text, "r", rows()); });
  }
  const Error no_stop =
      test::expect_error(ExitCode::kBadRecipe, [] { load_recipe_text("name: a\n", "r", rows()); });
  EXPECT_TRUE(test::holds(no_stop.what(), "stop.epochs"));
}

TEST(Load, ExtendsIsRelativeAndTheExtendingFileWins) {
  const TemporaryFolder folder;
  folder.write("shared/base.yaml", "seed: 1\noptimizer: {lr: 0.1, weight_decay: 0.5}\nstop: {epochs: 3}\n");
  folder.write("shared/fast.yaml", "optimizer: {lr: 0.9}\n");
  const auto path =
      folder.write("runs/r.yaml", "extends: [../shared/base.yaml, ../shared/fast.yaml]\nseed: 2\n");
  const Recipe r = load_recipe_file(path, rows());
  EXPECT_EQ(r.seed, 2);
  EXPECT_EQ(r.optimizer.lr, 0.9);
  EXPECT_EQ(r.optimizer.weight_decay, 0.5);
  EXPECT_TRUE(test::holds(r.origins.at("optimizer.weight_decay"), "base.yaml:2:36"));
}

TEST(Load, ExtendsThatGoesInACircleOrNowhereIsARecipeError) {
  const TemporaryFolder folder;
  folder.write("a.yaml", "extends: b.yaml\n");
  folder.write("b.yaml", "extends: a.yaml\n");
  const auto circle =
      test::expect_error(ExitCode::kBadRecipe, [&] { load_recipe_file(folder / "a.yaml", rows()); });
  EXPECT_TRUE(test::holds(circle.what(), "a.yaml → b.yaml → a.yaml"));
  folder.write("c.yaml", "name: c\nextends: missing.yaml\n");
  const auto missing =
      test::expect_error(ExitCode::kBadRecipe, [&] { load_recipe_file(folder / "c.yaml", rows()); });
  EXPECT_TRUE(test::holds(missing.what(), "c.yaml:2:10"));
  folder.write("d.yaml", "extends: {a: 1}\n");
  test::expect_error(ExitCode::kBadRecipe, [&] { load_recipe_file(folder / "d.yaml", rows()); });
  test::expect_error(ExitCode::kMissingFile, [&] { load_recipe_file(folder / "none.yaml", rows()); });
}

TEST(Load, ARecipeMayComeThroughAPipe) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const std::string text = "name: piped\nstop: {epochs: 1}\n";
  ASSERT_EQ(::write(ends[1], text.data(), text.size()), std::ssize(text));
  ::close(ends[1]);
  EXPECT_EQ(load_recipe_file("/dev/fd/" + std::to_string(ends[0]), rows()).name, "piped");
  ::close(ends[0]);
}

TEST(Load, AFileThatLeadsNowhereIsNamed) {
  const TemporaryFolder folder;
  std::filesystem::create_symlink(folder / "b.yaml", folder / "a.yaml");
  std::filesystem::create_symlink(folder / "a.yaml", folder / "b.yaml");
  const auto named =
      test::expect_error(ExitCode::kMissingFile, [&] { load_recipe_file(folder / "a.yaml", rows()); });
  EXPECT_TRUE(test::holds(named.what(), "a.yaml: cannot be read"));
  folder.write("r.yaml", "extends: a.yaml\n");
  const auto extended =
      test::expect_error(ExitCode::kBadRecipe, [&] { load_recipe_file(folder / "r.yaml", rows()); });
  EXPECT_TRUE(test::holds(extended.what(), "a.yaml\" cannot be read"));
}

TEST(Load, WhatHasNoKeysIsNeitherExtendedNorOverridden) {
  const TemporaryFolder folder;
  folder.write("named.yaml", "name: named\n");
  for (const char* content : {"", "# nothing\n", "- 1\n", "text\n"}) {
    folder.write("other.yaml", content);
    folder.write("r.yaml", "extends: [named.yaml, other.yaml]\n");
    const auto error =
        test::expect_error(ExitCode::kBadRecipe, [&] { load_recipe_file(folder / "r.yaml", rows()); });
    EXPECT_TRUE(test::holds(error.what(), "r.yaml:1:23")) << content;
    EXPECT_TRUE(test::holds(error.what(), "has no keys")) << content;
  }
  folder.write("list.yaml", "- name: listed\n");
  test::expect_error(ExitCode::kBadRecipe,
                     [&] { load_recipe_file(folder / "list.yaml", rows(), {.overrides = {"seed=1"}}); });
}

TEST(RecipeLoad, KeysOfASectionStandBesideItsShortForm) {
  const Recipe weights =
      load("model: {name: cnn, weights: first.safetensors}", {"model.weights.skip=[fc.*]"});
  EXPECT_EQ(weights.weights.file, "first.safetensors");
  EXPECT_EQ(weights.weights.skip, std::vector<std::string>{"fc.*"});
  EXPECT_EQ(load("model: {name: cnn, weights: first.safetensors}", {"model.weights.file=second.safetensors"})
                .weights.file,
            "second.safetensors");
}

}  // namespace
}  // namespace autotrain
