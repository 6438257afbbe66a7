#include "loop/evaluation_runner.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "base/clock.h"
#include "base/interrupt.h"
#include "base/text.h"
#include "base/units.h"
#include "device/failure.h"
#include "loop/evaluator.h"
#include "loop/out_of_memory.h"
#include "state/resume.h"
#include "state/snapshot.h"

namespace autotrain {

std::optional<EvaluationRecord> EvaluationRunner::run() {
  Workbench& bench = session_.bench;
  const Stopwatch watch;
  const int64_t total = bench.data.validation->size();
  const auto proceed = [&](int64_t done) {
    session_.followers.tell(&RunObserver::on_evaluation_progress, done, total);
    return pending_interrupt() != Interrupt::kStop;
  };
  const auto record_of = [&](Evaluation found) {
    return EvaluationRecord{.update = session_.state.position.updates,
                            .epoch = session_.epoch(),
                            .split = "validation",
                            .figures = std::move(found.figures),
                            .kinds = std::move(found.kinds),
                            .tables = std::move(found.tables),
                            .seconds = watch.seconds(),
                            .samples = total};
  };
  if (bench.average.active())
    share_buffers(bench);  // those that are learned with: the others are shared below
  const AveragedWeights averaged(bench.average);
  for (Attempts attempts;;) {
    try {
      auto found = evaluate(bench, *bench.data.validation, session_.plan.evaluation_micro_batch, proceed);
      if (!found) return std::nullopt;
      return record_of(std::move(*found));
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      if (!lacks_memory(error)) throw;
      session_.bench.ranks->share(error);
      prepare_another_attempt(error, attempts);
    }
  }
}

// A smaller size is kept: evaluations are few, and long.
void EvaluationRunner::prepare_another_attempt(const std::exception& error, Attempts& attempts) {
  const std::optional<Refusal> refusal = free_memory(session_, saver_);
  int64_t& size = session_.plan.evaluation_micro_batch;
  const bool stop = session_.recipe.execution.recovery == Recovery::kStop;
  if (attempts.failed() > 0)
    refuse_too_much_gathered(session_.bench, *session_.bench.data.validation, "validation");
  const int64_t next = attempts.after_failure(size);
  if (stop || next == 0)
    throw out_of_memory(session_.bench, session_.plan, error, refusal, "evaluation", size, "");
  size = next;
  ++session_.state.totals.recoveries;
  session_.note(EventKind::kOutOfMemory,
                cat("evaluation: ", first_line(error), "; it starts again in micro-batches of ", size));
}

void settle_best(const Recipe& recipe, Position& position) {
  const std::string before = std::exchange(position.best_of, terms_of_best(recipe));
  if (before.empty() || before == position.best_of) return;
  log::warn("trainer",
            "the best was found by another evaluation.monitor or loss, or on other validation data: it is "
            "looked for anew, and early stopping counts from here");
  position.best_figures.clear();
  position.best_update = position.evaluated_update = -1;
  position.best_for_patience = 0;
  position.patience_begun = false;
  position.evaluations_since_best = 0;
  position.plateau.best.reset();
}

bool counts(const EvaluationRecord& evaluation, const std::string& figure, bool was_finite) {
  if (!std::isnan(evaluation.figures.at(figure))) return true;
  return was_finite && std::isnan(evaluation.figures.at("loss"));
}

std::string why_undefined(const EvaluationRecord& evaluation, const std::string& figure) {
  const double loss = evaluation.figures.at("loss");
  if (!std::isfinite(loss)) {
    return std::isnan(loss)
               ? "no target of the validation data counts, or the model's predictions are not finite"
               : "no target of the validation data counts, or the model's predictions are too far off";
  }
  const std::string none = "; it counts for no patience and no plateau";
  if (figure.starts_with("roc_auc"))
    return "the validation data has one class, or of each label one value" + none;
  if (figure.starts_with("average_precision")) return "the validation data has no positive sample" + none;
  return "these data or predictions cannot tell it" + none;
}

double figure_of(const EvaluationRecord& evaluation, const std::string& name) {
  const auto found = evaluation.figures.find(name);
  if (found != evaluation.figures.end()) return found->second;
  throw Error(ExitCode::kBrokenContract, "Task::evaluate",
              cat("gives no ", name, " at update ", evaluation.update,
                  ", by which the run goes, and gave it before training"),
              "give every figure each time, NaN where it is not defined");
}

bool take_into_account(const EvaluationRecord& evaluation, const Recipe& recipe, Position& position) {
  const std::string& monitor = recipe.evaluation.monitor;
  const double value = figure_of(evaluation, monitor);
  const bool lower = evaluation.kinds.at(monitor).better == Better::kLower;
  const auto gain_over = [&](double former) { return lower ? former - value : value - former; };
  position.evaluated_update = evaluation.update;
  position.last_figures = evaluation.figures;
  position.figure_kinds = evaluation.kinds;
  position.last_tables = evaluation.tables;
  const bool first = !position.best_figures.contains(monitor);
  const bool due = !position.evaluation_extra;
  if (due && counts(evaluation, monitor, !first)) ++position.evaluations_since_best;
  if (!std::isfinite(value)) return false;
  if (due && (!position.patience_begun || gain_over(position.best_for_patience) > recipe.stop.min_delta)) {
    position.best_for_patience = value;
    position.patience_begun = true;
    position.evaluations_since_best = 0;
  }
  if (!first && gain_over(position.best_figures.at(monitor)) <= 0) return false;
  position.best_figures = position.last_figures;
  position.best_update = position.updates;
  return true;
}

}  // namespace autotrain
