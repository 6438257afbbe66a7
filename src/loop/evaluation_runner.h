#pragma once

#include <optional>

#include "loop/out_of_memory.h"
#include "loop/saver.h"
#include "loop/session.h"

namespace autotrain {

/// Evaluates in the middle of training, and gets over memory that runs out.
class EvaluationRunner {
 public:
  EvaluationRunner(Session& session, Saver& saver) : session_(session), saver_(saver) {}

  /// The validation data's figures, of averaged weights where weights are averaged. Nothing when a signal
  /// stopped it. Precondition: there are such data.
  /// @throws Error(kDoesNotFit) when not even one sample at a time fits.
  std::optional<EvaluationRecord> run();

 private:
  void prepare_another_attempt(const std::exception& error, Attempts& attempts);

  Session& session_;
  Saver& saver_;
};

/// Begins the search for the best, and for that of a schedule that follows evaluations, anew where the one so
/// far was found by another monitor or loss, or on other data, before a resume that changed them: such
/// figures do not compare.
void settle_best(const Recipe& recipe, Position& position);

/// Whether a figure that is not finite, or one that is, counts as an evaluation without or with improvement.
/// One that is not a number says nothing where these data cannot tell it: while it never was one, or where
/// the loss is a number.
bool counts(const EvaluationRecord& evaluation, const std::string& figure, bool was_finite);

/// Why a figure of an evaluation is not finite, in words.
std::string why_undefined(const EvaluationRecord& evaluation, const std::string& figure);

/// A figure that the run goes by. @throws Error(kBrokenContract) when the evaluation lacks it, which those
/// before training had.
double figure_of(const EvaluationRecord& evaluation, const std::string& name);

/// Takes an evaluation into account: whether it is the best so far, and how many came since. One
/// that was not due may be the best, but counts for no patience, so that a run that was stopped and extended
/// goes on as one that was not.
/// @return whether it is the best.
bool take_into_account(const EvaluationRecord& evaluation, const Recipe& recipe, Position& position);

}  // namespace autotrain
