#pragma once

#include <exception>
#include <functional>
#include <string>

#include "autotrain/error.h"
#include "autotrain/plan.h"
#include "loop/evaluator.h"
#include "loop/saver.h"
#include "loop/session.h"
#include "setup/assembly.h"

namespace autotrain {

/// Whether what was thrown tells of memory that was refused, by an allocator or inside a library.
bool lacks_memory(const std::exception& error);

/// Once memory has run out: what metrics gather of all the data is the same in micro-batches of any size.
/// Does nothing beside a GPU, which has none of it.
/// @throws Error(kDoesNotFit) naming the metrics where that takes half of what the model leaves.
void refuse_too_much_gathered(Workbench& bench, const Dataset& data, const std::string& split);

/// Evaluates data outside of training, as `evaluate` does, and gets over memory that runs out: it starts
/// again as Attempts say. Several ranks make one attempt.
/// @return nothing when `proceed` stopped it. @throws Error(kDoesNotFit) when not even one sample fits.
std::optional<Evaluation> evaluate_in_attempts(Workbench& bench, const BatchPlan& plan, const Dataset& data,
                                               int64_t micro_batch,
                                               const std::function<bool(int64_t samples)>& proceed);

/// Attempts at one piece of work under which memory runs out. The one after the first failure has the same
/// size, from emptied caches: what was lacking may be there again, and the same cut gives the same bits. From
/// then on each has at most half as many samples.
class Attempts {
 public:
  /// The next size after an attempt at `size` failed; 0: there is none.
  /// @param smaller the size to take then, at most half; 0 where there is none. None: half.
  int64_t after_failure(int64_t size, const std::function<int64_t()>& smaller = {});

  /// The work was done: the next failure is of another piece.
  void begin_anew() { failed_ = 0; }

  int failed() const { return failed_; }

 private:
  int failed_ = 0;
};

/// Gives back everything that can be had back, a checkpoint's copy included. @return what had been refused.
std::optional<Refusal> free_memory(Session& session, Saver& saver);

/// Memory that ran out in mid-run, as an error that its user can act on: phase, what was asked for, what
/// holds the memory, and what fits by the plan's own trials.
/// @param refusal      what the allocator said then.
/// @param activity     "training" or "evaluation".
/// @param micro_batch  the size that did not fit.
/// @param layer        where in the model it happened; "" when not known.
Error out_of_memory(Workbench& bench, const BatchPlan& plan, const std::exception& error,
                    const std::optional<Refusal>& refusal, const std::string& activity, int64_t micro_batch,
                    const std::string& layer);

}  // namespace autotrain
