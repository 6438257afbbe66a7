#include "plan/planner.h"

#include <cstdlib>
#include <fstream>
#include <functional>

#include "base/interrupt.h"
#include "base/text.h"
#include "base/units.h"
#include "plan/plan_enums.h"
#include "plan/plan_json.h"
#include "support/run_workbench.h"
#include "support/support.h"

namespace autotrain {
namespace {

using test::SmallNet;

// Wide enough that a few megabytes hold some hundred samples: 64 KiB of activations each.
constexpr int64_t kWide = 1 << 13;

struct Planned {
  explicit Planned(const Recipe& recipe, SmallNet::Middle middle = SmallNet::Middle::kNothing,
                   bool fresh = false)
      : Planned(recipe, test::small_task(middle, kWide), fresh) {}
  Planned(const Recipe& recipe, std::unique_ptr<Task> task, bool fresh = false, int64_t evaluated = 100)
      : data(test::small_data(4000)),
        validation(test::small_data(evaluated, 8)),
        bench(test::make_workbench(recipe, std::move(task), data, &validation)),
        planner({.recipe = recipe, .fresh = fresh}, *bench,
                {.on_end = [this](const ProbeRecord& r) { seen.push_back(r); }}) {}

  BatchPlan plan() { return planner.plan(); }

  TensorDataset data, validation;
  std::unique_ptr<Workbench> bench;
  std::vector<ProbeRecord> seen;
  Planner planner;
};

// Its trials, for the message of a test that fails.
std::string trail(const BatchPlan& plan) {
  std::string text;
  for (const ProbeRecord& probe : plan.search.probes)
    text += cat(probe.micro_batch, " of ", format_bytes(probe.allocated_bytes), " peaks at ",
                format_bytes(probe.peak_bytes), " ", in_words(probe.outcome),
                probe.confirmed ? ", confirmed\n" : "\n");
  return text;
}

Recipe tight_recipe() {
  Recipe r = test::small_recipe();
  r.batch.effective = 1000;
  r.execution.memory.budget = *Budget::parse("48MiB");
  return r;
}

TEST(Planner, FillsTheBandAndCutsTheEffectiveBatch) {
  const Recipe recipe = tight_recipe();
  Planned run(recipe);
  const BatchPlan plan = run.plan();
  EXPECT_EQ(plan.search.reason, SearchReason::kInBand);
  EXPECT_GE(plan.search.fill, 0.8);
  EXPECT_LE(plan.search.fill, 0.9);
  EXPECT_TRUE(plan.search.confirmed && plan.confirmed);
  EXPECT_GT(plan.window, 1);
  EXPECT_EQ(plan.effective_batch, 1000);
  EXPECT_EQ(plan.window, ceil_div(1000, plan.search.micro_batch));
  EXPECT_EQ(plan.micro_batch, ceil_div(1000, plan.window));
  EXPECT_NEAR(plan.lr.scaled, 0.01 * 1000 / 32, 1e-12);
  EXPECT_EQ(run.seen.size(), plan.search.probes.size());
  EXPECT_TRUE(test::holds(plan.split_check, "rounding"));
}

// Evaluating takes four times as much memory for a sample as learning from it.
struct HungryEvaluation final : Task {
  std::unique_ptr<Task> inner = test::small_task(SmallNet::Middle::kNothing, kWide / 4);
  torch::nn::Module& module() override { return inner->module(); }
  LossTerms loss(const Batch& batch) override { return inner->loss(batch); }
  EvaluationTerms evaluate(const Batch& batch) override {
    const torch::Tensor held = torch::zeros({batch.samples, 16 * kWide / 4});
    return inner->evaluate(batch);
  }
};

TEST(Planner, FillsTheBandThoughEvaluationsTakeMoreThanUpdates) {
  Recipe recipe = tight_recipe();
  recipe.batch.effective = 4000;
  Planned run(recipe, std::make_unique<HungryEvaluation>(), /*fresh=*/false, /*evaluated=*/4000);
  const BatchPlan plan = run.plan();
  EXPECT_EQ(plan.search.reason, SearchReason::kInBand) << trail(plan);
  EXPECT_GE(plan.search.fill, 0.8);
  EXPECT_LE(plan.search.fill, 0.9);
  EXPECT_TRUE(plan.search.confirmed);
  EXPECT_LE(plan.search.probes.size(), 12u);
}

// Passes of some sizes take 238 MiB beside what the model takes, as packed weights and scratch of a library
// may.
struct LargeScratch final : Task {
  explicit LargeScratch(std::function<bool(int64_t)> sizes,
                        SmallNet::Middle middle = SmallNet::Middle::kNothing)
      : inner(test::small_task(middle, kWide / 32)), has_scratch(std::move(sizes)) {}
  torch::nn::Module& module() override { return inner->module(); }
  LossTerms loss(const Batch& batch) override {
    const torch::Tensor scratch = torch::zeros({has_scratch(batch.samples) ? 238 * kMiB / 4 : 0});
    return inner->loss(batch);
  }
  EvaluationTerms evaluate(const Batch& batch) override { return inner->evaluate(batch); }
  std::unique_ptr<Task> inner;
  std::function<bool(int64_t)> has_scratch;
};

TEST(Planner, FillsWhatIsInsideTheBudgetWhereEvenTheSmallestSizeIsAboveTheBand) {
  Recipe recipe = tight_recipe();
  recipe.batch.effective = 4000;
  recipe.execution.memory.budget = *Budget::parse("256MiB");
  const BatchPlan plan = Planned(recipe, std::make_unique<LargeScratch>([](int64_t) { return true; })).plan();
  EXPECT_EQ(plan.search.reason, SearchReason::kAboveBand);
  EXPECT_GT(plan.search.fill, 0.9);
  EXPECT_LE(plan.search.fill, 1.0);
  EXPECT_GE(plan.micro_batch, 200) << "a sample takes 2 KiB\n" << trail(plan);
  EXPECT_TRUE(plan.search.confirmed && plan.confirmed);
  EXPECT_EQ(plan.effective_batch, 4000);
}

TEST(Planner, ExecutesNoSizeThatItSawNotFit) {
  Recipe recipe = tight_recipe();
  recipe.batch.effective = 1000;
  // Leaves one sample, which batch normalisation cannot learn from.
  recipe.batch.limits.max_micro_batch = 333;
  recipe.execution.memory.budget = *Budget::parse("200MiB");
  const auto even_or_full = [](int64_t size) { return size == 250 || size == 332; };
  const BatchPlan plan =
      Planned(recipe, std::make_unique<LargeScratch>(even_or_full, SmallNet::Middle::kBatchNorm)).plan();
  EXPECT_EQ(plan.micro_batch, 331);
  EXPECT_TRUE(plan.confirmed);
  EXPECT_LE(plan.fill, 0.9);
}

TEST(Planner, SaysWhenAllOfTheEffectiveBatchFits) {
  Recipe recipe = tight_recipe();
  recipe.batch.effective = 40;
  const BatchPlan plan = Planned(recipe).plan();
  EXPECT_EQ(plan.search.reason, SearchReason::kEffectiveBatch);
  EXPECT_EQ(plan.micro_batch, 40);
  EXPECT_EQ(plan.window, 1);
  EXPECT_LT(plan.search.fill, 0.8);
}

TEST(Planner, AutomaticEffectiveBatchIsOneMicroBatchUnderItsCap) {
  Recipe recipe = tight_recipe();
  recipe.batch.effective.reset();
  const BatchPlan capped = Planned(recipe).plan();
  EXPECT_EQ(capped.search.reason, SearchReason::kCap);
  EXPECT_EQ(capped.effective_batch, 200) << "N ÷ 20 is less than 8 × 32";
  EXPECT_EQ(capped.window, 1);
  recipe.batch.limits.max_effective = 3000;
  const BatchPlan wide = Planned(recipe).plan();
  EXPECT_EQ(wide.search.reason, SearchReason::kInBand);
  EXPECT_EQ(wide.effective_batch, wide.micro_batch);
}

TEST(Planner, ATypedSizeIsKeptAndConfirmedByOneTrial) {
  Recipe recipe = tight_recipe();
  recipe.execution.micro_batch = 37;
  const BatchPlan plan = Planned(recipe).plan();
  EXPECT_EQ(plan.micro_batch, 37);
  EXPECT_EQ(plan.window, 28);
  EXPECT_EQ(plan.search.reason, SearchReason::kFixed);
  EXPECT_EQ(plan.search.probes.size(), 1u);
  EXPECT_TRUE(plan.confirmed);
}

TEST(Planner, TheSearchedPlanTypedInIsTheSamePlan) {
  const BatchPlan found = Planned(tight_recipe()).plan();
  Recipe typed = tight_recipe();
  typed.execution.micro_batch = found.micro_batch;
  const BatchPlan plan = Planned(typed).plan();
  EXPECT_EQ(plan.window, found.window);
  EXPECT_EQ(plan.loss_factor, found.loss_factor);
  EXPECT_EQ(plan.lr.scaled, found.lr.scaled);
}

TEST(Planner, ATypedSizeThatDoesNotFitNamesOneThatDoes) {
  Recipe recipe = tight_recipe();
  recipe.execution.micro_batch = 1000;
  const Error error = test::expect_error(ExitCode::kDoesNotFit, [&] { Planned(recipe).plan(); });
  EXPECT_TRUE(test::holds(error.what(), "execution.micro_batch: 1000 does not fit"));
  EXPECT_TRUE(test::holds(error.hint(), "fits (measured"));
  EXPECT_TRUE(test::holds(error.what(), "parameters"));
  EXPECT_TRUE(test::holds(error.what(), "largest blocks then"));
}

TEST(Planner, ATypedSizeAboveTheBandRuns) {
  Recipe recipe = tight_recipe();
  recipe.execution.memory.target_low = 0.1;
  recipe.execution.memory.target_high = 0.2;
  recipe.execution.micro_batch = 250;
  const BatchPlan plan = Planned(recipe).plan();
  EXPECT_GT(plan.fill, 0.2);
  EXPECT_TRUE(plan.confirmed);
}

TEST(Planner, OneSampleThatDoesNotFitIsExplained) {
  Recipe recipe = tight_recipe();
  recipe.execution.memory.budget = *Budget::parse("1MiB");
  const Error error = test::expect_error(ExitCode::kDoesNotFit, [&] { Planned(recipe).plan(); });
  EXPECT_TRUE(test::holds(error.what(), "not even 1 sample"));
  EXPECT_TRUE(test::holds(error.what(), "in phase "));
  EXPECT_TRUE(test::holds(error.what(), "optimizer state"));
  EXPECT_TRUE(test::holds(error.hint(), "execution.memory.budget"));
}

// "3MiB" of "…memory.budget: 3MiB would be enough (measured…".
std::string enough_said(const Error& error) {
  const std::string hint = error.hint(), before = "execution.memory.budget: ";
  const size_t at = hint.find(before), end = hint.find(" would be enough (measured", at);
  EXPECT_TRUE(at != std::string::npos && end != std::string::npos) << hint;
  return end == std::string::npos ? "" : hint.substr(at + before.size(), end - at - before.size());
}

TEST(Planner, ABudgetThatIsTooSmallIsToldOneThatIsEnoughAndItIs) {
  Recipe recipe = tight_recipe();
  for (const std::optional<int64_t> typed : {std::optional<int64_t>(), std::optional<int64_t>(1)}) {
    recipe.execution.memory.budget = *Budget::parse("1MiB");
    recipe.execution.micro_batch = typed;
    const Error error = test::expect_error(ExitCode::kDoesNotFit, [&] { Planned(recipe).plan(); });
    const auto budget = Budget::parse(enough_said(error));
    ASSERT_TRUE(budget) << error.hint();
    recipe.execution.memory.budget = *budget;
    EXPECT_GE(Planned(recipe).plan().micro_batch, 1);
  }
}

// Asks for more memory than there is.
struct Insatiable final : Task {
  std::unique_ptr<Task> inner = test::small_task();
  torch::nn::Module& module() override { return inner->module(); }
  LossTerms loss(const Batch& batch) override {
    const torch::Tensor none = torch::empty({int64_t{1} << 50}, torch::kUInt8);
    return inner->loss(batch);
  }
};

TEST(Planner, NoBudgetIsToldWhereNoneWouldDoAndTheLimitStands) {
  const Recipe recipe = tight_recipe();
  Planned run(recipe, std::make_unique<Insatiable>());
  const Error error = test::expect_error(ExitCode::kDoesNotFit, [&] { run.plan(); });
  EXPECT_FALSE(test::holds(error.hint(), "would be enough"));
  EXPECT_THROW(torch::zeros({13 << 20}), c10::OutOfMemoryError) << "52 MiB are beyond the budget of 48 again";
}

TEST(MemoryStatement, TellsWhatIsTheMachinesFromWhatTheBudgetCountsOnAGpu) {
  const MemoryStatement s{.budget = 256 * kMiB,
                          .parameters = 8 * kMiB,
                          .data = 4 * kMiB,
                          .others = 10 * kGiB,
                          .machine = 600 * kMiB,
                          .on_gpu = true};
  const std::string text = describe(s, std::nullopt);
  EXPECT_TRUE(test::holds(text, "libraries' workspaces and code, outside the budget: 600 MiB"));
  EXPECT_TRUE(test::holds(text, "it counts what this process adds on the device after its warm-up"));
  EXPECT_TRUE(test::holds(text, "used by others on this device: 10.0 GiB"));
  EXPECT_FALSE(text.find("data set and the like") != std::string::npos);
}

TEST(MemoryStatement, ARefusalThatTheBudgetWouldHaveAllowedSaysWhoHoldsTheMemory) {
  const Refusal refusal{
      .requested_bytes = kGiB, .by_system = true, .others_bytes = 70 * kGiB, .phase = "forward"};
  EXPECT_TRUE(test::holds(describe(refusal), "which the budget would have allowed: others hold 70.0 GiB"));
}

TEST(Planner, AnEffectiveBatchLargerThanTheDataIsARecipeError) {
  Recipe recipe = tight_recipe();
  recipe.batch.effective = 4001;
  test::expect_error(ExitCode::kBadRecipe, [&] { Planned(recipe).plan(); });
}

class Unsplittable final : public Task {
 public:
  torch::nn::Module& module() override { return inner_->module(); }
  LossTerms loss(const Batch& batch) override { return inner_->loss(batch); }
  bool splittable() const override { return false; }

 private:
  std::unique_ptr<Task> inner_ = test::small_task(SmallNet::Middle::kNothing, kWide);
};

TEST(Planner, ATaskThatMixesSamplesIsNeverAccumulated) {
  Recipe recipe = tight_recipe();
  const Error error = test::expect_error(ExitCode::kDoesNotFit,
                                         [&] { Planned(recipe, std::make_unique<Unsplittable>()).plan(); });
  EXPECT_TRUE(test::holds(error.what(), "splittable"));
  recipe.batch.effective = 40;
  EXPECT_EQ(Planned(recipe, std::make_unique<Unsplittable>()).plan().window, 1);
}

TEST(Planner, WhatIsNotSplittableIsNamed) {
  const auto check = [](SmallNet::Middle middle) {
    return Planned(tight_recipe(), middle).plan().split_check;
  };
  EXPECT_TRUE(test::holds(check(SmallNet::Middle::kBatchNorm), "norm (aten::"));
  EXPECT_TRUE(test::holds(check(SmallNet::Middle::kBatchNorm), "batch normalisation"));
  EXPECT_TRUE(test::holds(check(SmallNet::Middle::kMeanOfBatch), "mixes samples"));
  EXPECT_TRUE(test::holds(check(SmallNet::Middle::kMeanOfBatch), "in first (aten::"));
  EXPECT_TRUE(test::holds(check(SmallNet::Middle::kDropout), "rounding")) << "dropout modules are off";
}

TEST(Planner, BatchNormalisationNeverGetsOneSample) {
  Recipe recipe = tight_recipe();
  recipe.batch.effective = 33;
  recipe.batch.limits.max_micro_batch = 16;
  recipe.execution.cut = Cut::kFull;  // 16 + 16 + 1, were it not for the rule
  const BatchPlan plan = Planned(recipe, SmallNet::Middle::kBatchNorm).plan();
  EXPECT_NE(33 % plan.micro_batch, 1);
  EXPECT_EQ(Planned(recipe).plan().micro_batch, 16) << "without batch normalisation the capacity is taken";
  recipe.execution.micro_batch = 16;
  const Error error =
      test::expect_error(ExitCode::kBadRecipe, [&] { Planned(recipe, SmallNet::Middle::kBatchNorm).plan(); });
  EXPECT_TRUE(test::holds(error.what(), "remainder of one sample"));
}

TEST(Planner, ATypedSizeBeyondTheDataSetIsRefusedLikeATypedBatch) {
  Recipe recipe = tight_recipe();
  recipe.batch.effective.reset();
  recipe.execution.micro_batch = 4001;
  const Error error = test::expect_error(ExitCode::kBadRecipe, [&] { Planned(recipe).plan(); });
  EXPECT_TRUE(test::holds(error.what(), "execution.micro_batch: 4001 is more than the 4000 samples"));
}

TEST(Planner, SpentProbesAreNoReasonToSayThatNothingFits) {
  Recipe recipe = tight_recipe();
  recipe.execution.memory.budget = *Budget::parse("40MiB");  // states take 23 MiB, a sample some 1.5 MiB
  recipe.execution.search.max_probes = 1;
  const BatchPlan plan = Planned(recipe, test::small_task(SmallNet::Middle::kNothing, 1 << 17)).plan();
  ASSERT_FALSE(plan.search.probes.front().fits()) << plan.search.probes.front().fill;
  EXPECT_EQ(plan.search.micro_batch, 1);
  EXPECT_EQ(plan.search.reason, SearchReason::kSearchLimit);
}

TEST(Planner, ASignalStopsTheSearch) {
  const Recipe recipe = tight_recipe();
  Planned run(recipe);
  request_interrupt(Interrupt::kStop);
  test::expect_error(ExitCode::kInterrupted, [&] { run.plan(); });
  clear_interrupt();
  EXPECT_NO_THROW(run.plan()) << "and leaves it as it was";
}

// A cache folder of its own, with CI unset, until the scope ends.
class CacheScope {
 public:
  CacheScope() {
    ::unsetenv("CI");
    ::setenv("XDG_CACHE_HOME", folder.path().c_str(), 1);
  }
  ~CacheScope() {
    ::setenv("CI", "1", 1);
    ::unsetenv("XDG_CACHE_HOME");
  }
  std::vector<std::filesystem::path> files() const {
    std::vector<std::filesystem::path> all;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path())) {
      if (entry.is_regular_file()) all.push_back(entry.path());
    }
    return all;
  }
  test::TemporaryFolder folder;
};

TEST(PlanCache, AKeptPlanIsTriedAgainAndInvalidatedByItsKey) {
  const CacheScope cache;
  Recipe recipe = tight_recipe();
  recipe.execution.search.plan_cache = true;
  const BatchPlan first = Planned(recipe).plan();
  EXPECT_FALSE(first.search.from_cache);
  ASSERT_EQ(cache.files().size(), 1u);
  const BatchPlan second = Planned(recipe).plan();
  EXPECT_TRUE(second.search.from_cache);
  EXPECT_LE(second.search.probes.size(), 2u) << "the capacity, and what an even cut executes of it";
  EXPECT_EQ(second.micro_batch, first.micro_batch);
  EXPECT_EQ(second.search.micro_batch, first.search.micro_batch);
  EXPECT_EQ(second.loss_factor, first.loss_factor);
  EXPECT_TRUE(second.confirmed);
  EXPECT_FALSE(Planned(recipe, SmallNet::Middle::kNothing, /*fresh=*/true).plan().search.from_cache);
  recipe.execution.memory.budget = *Budget::parse("49MiB");
  EXPECT_FALSE(Planned(recipe).plan().search.from_cache) << "another budget is another plan";
}

TEST(PlanCache, AHitBelowTheBandIsSearchedAnew) {
  const CacheScope cache;
  Recipe recipe = tight_recipe();
  recipe.execution.search.plan_cache = true;
  const BatchPlan first = Planned(recipe).plan();
  ASSERT_EQ(first.search.reason, SearchReason::kInBand);
  auto entry = nlohmann::ordered_json::parse(test::slurp(cache.files().at(0)));
  entry["plan"]["search"]["micro_batch"] = std::max<int64_t>(1, first.search.micro_batch / 3);
  std::ofstream(cache.files().at(0)) << entry.dump();
  const BatchPlan again = Planned(recipe).plan();
  EXPECT_FALSE(again.search.from_cache);
  EXPECT_GE(again.search.fill, again.target_low);
}

// As what a busy machine left of a search may be, or an entry that was edited.
TEST(PlanCache, WhateverTheReasonAKeptSizeBelowTheBandIsSearchedAnew) {
  const CacheScope cache;
  Recipe recipe = tight_recipe();
  recipe.execution.search.plan_cache = true;
  const BatchPlan first = Planned(recipe).plan();
  ASSERT_EQ(first.search.reason, SearchReason::kInBand);
  for (const char* reason : {"search_limit", "granularity", "above_band", "effective_batch"}) {
    auto entry = nlohmann::ordered_json::parse(test::slurp(cache.files().at(0)));
    entry["plan"]["search"]["micro_batch"] = std::max<int64_t>(1, first.search.micro_batch / 3);
    entry["plan"]["search"]["reason"] = reason;
    std::ofstream(cache.files().at(0)) << entry.dump();
    const BatchPlan again = Planned(recipe).plan();
    EXPECT_FALSE(again.search.from_cache) << reason;
    EXPECT_GE(again.search.fill, again.target_low) << reason;
  }
}

TEST(PlanCache, ASearchThatWasCutShortIsNotKept) {
  const CacheScope cache;
  Recipe recipe = tight_recipe();
  recipe.execution.search.plan_cache = true;
  recipe.execution.search.max_probes = 1;
  EXPECT_EQ(Planned(recipe).plan().search.reason, SearchReason::kSearchLimit);
  EXPECT_TRUE(cache.files().empty());
}

TEST(PlanCache, AModelWithOtherLayersIsAnotherPlanThoughItsParametersAreTheSame) {
  const CacheScope cache;
  Recipe recipe = tight_recipe();
  recipe.execution.search.plan_cache = true;
  Planned(recipe, SmallNet::Middle::kNothing).plan();
  EXPECT_FALSE(Planned(recipe, SmallNet::Middle::kDropout).plan().search.from_cache);
}

TEST(PlanCache, DamagedEntriesAreIgnored) {
  const CacheScope cache;
  Recipe recipe = tight_recipe();
  recipe.execution.search.plan_cache = true;
  const BatchPlan first = Planned(recipe).plan();
  for (const char* damage : {"", "{", "{\"key\": 3}", "[]", "\xff\xfe"}) {
    std::ofstream(cache.files().at(0)) << damage;
    const BatchPlan again = Planned(recipe).plan();
    EXPECT_FALSE(again.search.from_cache) << damage;
    EXPECT_EQ(again.effective_batch, first.effective_batch);
  }
}

TEST(PlanCache, AnEntryThatSaysNonsenseIsNotTaken) {
  const CacheScope cache;
  Recipe recipe = tight_recipe();
  recipe.execution.search.plan_cache = true;
  const BatchPlan first = Planned(recipe).plan();
  for (const int64_t size : {int64_t{0}, int64_t{-3}, int64_t{1} << 60}) {
    auto entry = nlohmann::ordered_json::parse(test::slurp(cache.files().at(0)));
    entry["plan"]["search"]["micro_batch"] = size;
    std::ofstream(cache.files().at(0)) << entry.dump();
    const BatchPlan again = Planned(recipe).plan();
    EXPECT_FALSE(again.search.from_cache) << size;
    EXPECT_EQ(again.search.micro_batch, first.search.micro_batch);
  }
}

TEST(PlanJson, ReadsBackWhatItWrites) {
  BatchPlan plan = Planned(tight_recipe()).plan();
  plan.origin = {{"device", Origin::kFound}, {"lr", Origin::kAsked}};
  const auto json = plan_to_json(plan);
  EXPECT_EQ(plan_to_json(plan_from_json(json)), json);
  auto broken = json;
  broken["search"]["reason"] = "because";
  EXPECT_THROW(plan_from_json(broken), nlohmann::json::exception);
  broken = json;
  broken.erase("window");
  EXPECT_THROW(plan_from_json(broken), nlohmann::json::exception);
}

}  // namespace
}  // namespace autotrain
