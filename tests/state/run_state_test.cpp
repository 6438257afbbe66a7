#include "state/run_state.h"

#include "loop/evaluation_runner.h"
#include "support/support.h"

namespace autotrain {
namespace {

TEST(RunState, IsReadBackAsItWasWritten) {
  RunState state;
  state.position.updates = 7;
  state.totals.lr_factor = 0.25;
  state.position.shrunk_windows = {3, 9};
  state.position.last_figures = {{"loss", 0.5}};
  state.position.evaluation_owed = true;
  state.position.plateau = {.factor = 0.1, .figure = "loss", .best = 0.5, .waited = 2, .cooling = 1};
  state.position.noise_from = 5;
  state.position.noise = {
      .updates_each = 2, .updates_in_last = 1, .traces = {0.1, -3}, .squares = {1e-300, 2}};
  state.position.preconditioned_noise = {
      .updates_each = 1, .updates_in_last = 1, .traces = {7}, .squares = {0.5}};
  const RunState read = RunState::from_json(state.to_json());
  EXPECT_EQ(read.to_json(), state.to_json());
  EXPECT_EQ(read.position.noise, state.position.noise);
  EXPECT_EQ(read.position.preconditioned_noise, state.position.preconditioned_noise);
  EXPECT_EQ(read.position.plateau, state.position.plateau);
}

TEST(RunState, OfBeforeThereWereSchedulesThatFollowEvaluationsCanBeRead) {
  auto json = RunState().to_json();
  for (const char* const key : {"plateau_factor", "plateau_figure", "plateau_best", "plateau_waited",
                                "plateau_cooling", "evaluation_extra"})
    ASSERT_EQ(json.erase(key), 1u) << key;
  EXPECT_EQ(RunState::from_json(json).position.plateau, PlateauState());
}

TEST(RunState, OfBeforeGradientNoiseWasMeasuredCanBeRead) {
  auto json = RunState().to_json();
  ASSERT_EQ(json.erase("noise_from"), 1u);
  for (const std::string noise : {"noise_", "preconditioned_noise_"}) {
    for (const char* const key : {"updates_each", "updates_in_last", "traces", "squares"})
      ASSERT_EQ(json.erase(noise + key), 1u) << noise << key;
  }
  EXPECT_EQ(RunState::from_json(json).position.noise, NoiseBlocks());
  EXPECT_EQ(RunState::from_json(json).position.preconditioned_noise, NoiseBlocks());
  EXPECT_EQ(RunState::from_json(json).position.noise_from, -1);
}

TEST(RunState, WhoseBlocksDoNotAgreeIsDamaged) {
  for (const char* const traces : {"noise_traces", "preconditioned_noise_traces"}) {
    auto json = RunState().to_json();
    json[traces] = {1.0, 2.0};
    test::expect_error(ExitCode::kBadData, [&] { RunState::from_json(json); });
  }
  auto json = RunState().to_json();
  json["noise_updates_in_last"] = 2;  // of blocks of one
  test::expect_error(ExitCode::kBadData, [&] { RunState::from_json(json); });
}

// Found by a fuzzer: a real number where a whole one stands was converted, which is undefined beyond its
// range.
TEST(RunState, AWholeNumberIsNeverReadFromARealOne) {
  for (const double value : {6.7e54, 1.5, -1e300}) {
    auto json = RunState().to_json();
    json["updates"] = value;
    test::expect_error(ExitCode::kBadData, [&] { RunState::from_json(json); });
    json = RunState().to_json();
    json["shrunk_windows"] = {1, value};
    test::expect_error(ExitCode::kBadData, [&] { RunState::from_json(json); });
  }
}

TEST(RunState, ThatNoRunCanHaveIsNamedByFileAndField) {
  for (const char* const field :
       {"updates", "windows", "cursor", "learned", "effective_batch", "metrics_bytes"}) {
    auto json = RunState().to_json();
    json[field] = -5;
    const Error error =
        test::expect_error(ExitCode::kBadData, [&] { RunState::from_json(json, "run/state.json"); });
    EXPECT_EQ(error.where(), "run/state.json");
    EXPECT_TRUE(test::holds(error.problem(), std::string(field) + " is -5"));
  }
  auto json = RunState().to_json();
  json["cursor"] = "far";
  const std::string said =
      test::expect_error(ExitCode::kBadData, [&] { RunState::from_json(json, "run/state.json"); }).problem();
  EXPECT_TRUE(test::holds(said, "cursor: ")) << said;
  EXPECT_EQ(said.find("json.exception"), std::string::npos) << said;
}

EvaluationRecord measured(double loss, double accuracy) {
  return {.figures = {{"loss", loss}, {"accuracy", accuracy}},
          .kinds = {{"loss", {.better = Better::kLower}}, {"accuracy", {.better = Better::kHigher}}}};
}

TEST(Position, TheBestIsComparedWithFiguresOfTheSameMonitorOnly) {
  Recipe r;
  Position position;
  const auto evaluate = [&](int64_t update, double loss, double accuracy) {
    settle_best(r, position);
    position.updates = update;
    return take_into_account(measured(loss, accuracy), r, position);
  };
  EXPECT_TRUE(evaluate(1, 1.5, 0.2));
  EXPECT_FALSE(evaluate(2, 1.6, 0.3));
  EXPECT_EQ(position.evaluations_since_best, 1);
  r.evaluation.monitor = "accuracy";
  EXPECT_TRUE(evaluate(3, 1.7, 0.1)) << "the first of its kind";
  EXPECT_EQ(position.evaluations_since_best, 0) << "an accuracy is not compared with the loss of before";
  EXPECT_EQ(position.best_update, 3);
  EXPECT_TRUE(evaluate(4, 1.8, 0.2));
  EXPECT_FALSE(evaluate(5, 1.0, 0.15));
  r.loss.name = "mean_squared_error";
  position.plateau = {.factor = 0.1, .figure = "loss", .best = 1.0};
  EXPECT_TRUE(evaluate(6, 9, 0.1)) << "of another loss";
  EXPECT_EQ(position.plateau, (PlateauState{.factor = 0.1, .figure = "loss"}))
      << "which falls no further for it";
}

}  // namespace
}  // namespace autotrain
