#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "autotrain/error.h"
#include "autotrain/figures.h"
#include "optim/plateau.h"
#include "step/gradient_noise.h"

namespace autotrain {

/// Where a run stands and what it has found there. A rollback assigns the position of the checkpoint.
struct Position {
  int64_t updates = 0;  ///< applied: the clock of schedules, logging, limits
  int64_t windows = 0;  ///< attempted: always moves
  int64_t cursor = 0;   ///< samples of the stream consumed, over all ranks
  int64_t learned = 0;  ///< of them by applied updates: where schedules, stages and stops stand

  /// Samples per update, where a stage or an adaptation has come to; 0: training has not begun.
  int64_t effective = 0;

  /// Samples of the stream consumed before the window of the last applied update; -1: nobody noted it, or
  /// there was none.
  int64_t update_began = -1;
  int64_t consecutive_skips = 0;
  int64_t uncounted = 0;  ///< samples of the last windows in a row none of whose targets counted
  std::vector<int64_t> shrunk_windows = {};  ///< latest windows that only a smaller micro-batch finished

  std::map<std::string, double> last_figures = {};  ///< of the last evaluation; without any: train_loss
  std::map<std::string, double> best_figures = {};
  FigureKinds figure_kinds = {};              ///< of what evaluations measure
  std::vector<FigureTable> last_tables = {};  ///< of the last evaluation
  int64_t best_update = -1;
  std::string best_of = {};               ///< what makes figures comparable with it: see settle_best
  int64_t evaluations_since_best = 0;     ///< since one that improved by more than stop.min_delta
  double best_for_patience = 0;           ///< the monitored figure of that one
  bool patience_begun = false;            ///< there was one
  int64_t evaluated_update = -1;          ///< when the last whole evaluation was made
  bool evaluation_owed = false;           ///< one was due and was interrupted: it comes first on resume
  bool evaluation_extra = false;          ///< the one that is owed was not due: the run was about to end
  PlateauState plateau = {};              ///< of a schedule that follows evaluations
  int64_t noise_from = -1;                ///< the first window that could be measured; -1: none could
  NoiseBlocks noise = {};                 ///< of the updates so far
  NoiseBlocks preconditioned_noise = {};  ///< likewise, in the optimizer's metric
  int64_t metrics_bytes = 0;              ///< length of metrics.jsonl at the checkpoint

  /// Of the first micro-batch of the window that comes next: where a session ends and a task may keep what no
  /// checkpoint has, so that a resume can tell.
  std::optional<double> loss_ahead = {};
};

/// What is counted over all sessions of a run. A rollback takes nothing of it back.
struct Totals {
  int64_t skipped = 0;
  double seconds = 0;                                   ///< spent training and evaluating
  double training_seconds = 0;                          ///< of them spent on updates
  std::map<std::string, double> activity_seconds = {};  ///< up to the last update, by activity
  double checkpoint_stall_seconds = 0;                  ///< training waited so long for checkpoints
  int64_t peak_bytes = 0;                               ///< reserved plus outside
  int64_t recoveries = 0;                               ///< from memory that ran out in mid-run
  int64_t rollbacks = 0;
  double lr_factor = 1;  ///< what rollbacks multiplied the learning rate with
};

/// Everything about a run that changes while it trains, tensors aside. One value, so that saving it
/// saves all of it.
struct RunState {
  Position position = {};
  Totals totals = {};

  nlohmann::ordered_json to_json() const;

  /// @param where the file that holds it, for errors.
  /// @throws Error(kBadData) naming the field that is missing, of the wrong type or negative.
  static RunState from_json(const nlohmann::ordered_json& json, const std::string& where = "state.json");
};

/// That the state of a checkpoint cannot be gone on from. @param where the file that holds it.
Error broken_state(const std::string& where, const std::string& what);

/// The same of JSON that is not as it must be. @param part of the state that was read.
Error broken_state(const std::string& where, const std::string& part, const nlohmann::json::exception& error);

}  // namespace autotrain
